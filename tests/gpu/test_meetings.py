"""The small kernels in which every two accesses meet, as they are planned, on the GPU.

All of them are launched in one process of its own: one that hangs ends there.
"""

from tests.support.apart import apart
from tests.support.meeting_launches import launch_meetings
from tests.support.meetings import MEETINGS

LAUNCHES = 1000
TIMEOUT = 300.0


def test_what_is_planned_is_right():
    assert apart(launch_meetings, MEETINGS, LAUNCHES, timeout=TIMEOUT) == []
