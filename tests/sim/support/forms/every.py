"""Every form that ptxas takes for sm_90a."""

from tests.sim.support.forms.atomics import atomics
from tests.sim.support.forms.comparisons import comparisons
from tests.sim.support.forms.conversions import conversions, pairs
from tests.sim.support.forms.floats import approximate, floats, halves
from tests.sim.support.forms.form import Form
from tests.sim.support.forms.integers import bits, carries, integers

FAMILIES = (
    *(integers, carries, bits, floats, halves, approximate),
    *(comparisons, conversions, pairs, atomics),
)


def all_forms() -> tuple[Form, ...]:
    """The forms of all families."""
    return tuple(form for family in FAMILIES for form in family())
