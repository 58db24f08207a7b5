"""`warpsmith demo | bench | explain | sim | cache`.

Each command imports what it needs when it is called, so that `--help` is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from warpsmith.errors import WarpsmithError
from warpsmith.targets.known import KNOWN

_TARGETS = ", ".join(target.name for target in KNOWN)


class _Group(TyperGroup):
    """Errors that a user can mend are one line on standard error and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WarpsmithError as mistake:
            typer.echo(f"error: {mistake}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Group,
    help="Fuses tensor programs into CUDA kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cache_app = typer.Typer(help="Look at, and clear, the kernels kept on disk.")
app.add_typer(cache_app, name="cache")


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1, help="Rows of the input.")] = 384,
    columns: Annotated[int, typer.Option(min=1, help="Columns of the input.")] = 2048,
    full: Annotated[bool, typer.Option("--full", help="Print the prelude too.")] = False,
) -> None:
    """Fuse an RMSNorm backward, show its kernels, run it and check the answer."""
    from warpsmith.tools.demo import run_demo

    if not run_demo(rows, columns, full=full):
        raise typer.Exit(1)


@app.command()
def bench(
    suites: Annotated[
        list[str],
        typer.Argument(
            help="pointwise, reduction, norm-fwd, norm-bwd, softmax, odd-rows, long-rows, "
            "short-rows, batch-norm, matmul, rings, pace, roles, strategies, compile, host, "
            "protocol, sim; or unseen, and of norm-bwd, norm-fwd, softmax, losses, pointwise, "
            "batch-norm those whose sizes the seed says."
        ),
    ],
    json: Annotated[
        Path | None, typer.Option(help="Keep the rows in this file, or in this directory.")
    ] = None,
    peers: Annotated[
        str,
        typer.Option(
            help="auto: all that are installed; fast: PyTorch eager; none; or names, such as "
            "nvfuser,quack."
        ),
    ] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, shorter runs.")] = False,
    sizes: Annotated[
        str, typer.Option(help="Only these shapes, such as 8192x1024,8192x4096.")
    ] = "",
    limit: Annotated[
        float | None, typer.Option(help="Seconds after which no further problem is begun.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of unseen: says the sizes.")] = 1,
    shapes: Annotated[
        int, typer.Option("--all", help="Of unseen: so many shapes are timed beside the chosen.")
    ] = 0,
    minutes: Annotated[
        float, typer.Option(help="Of unseen: how long it compiles and times.")
    ] = 3.0,
    suite: Annotated[str, typer.Option(help="Of unseen: norm-bwd,softmax, or all of them.")] = "",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT.svg", help="Of unseen: draw shares of the ceiling here."),
    ] = None,
) -> None:
    """Measure suites beside the installed peers, and print the tables."""
    from warpsmith.tools.bench import run_bench, run_unseen

    if suites[:1] == ["unseen"]:
        families = [*suites[1:], *filter(None, suite.split(","))]
        minutes = minutes if limit is None else limit / 60
        run_unseen(families, json, peers, seed=seed, shapes=shapes, minutes=minutes, plot=plot)
        return
    run_bench(suites, json, peers, quick=quick, sizes=sizes, limit_s=limit)


@app.command()
def explain(
    function: Annotated[str, typer.Argument(help="FILE.py:FUNCTION")],
    arguments: Annotated[
        list[str], typer.Argument(help="One an argument: 'bfloat16[8192,4096]', or a number.")
    ],
    cuda: Annotated[bool, typer.Option("--cuda", help="Print the kernels too.")] = False,
    sync: Annotated[
        bool, typer.Option("--sync", help="List what orders accesses of memory, and why.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.html",
            help="Write a page to this file in place of the text: the graph, each kernel with a "
            "timeline, and its CUDA beside the Python that it comes from.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help=f"One of {_TARGETS}; else the GPU that is there, or {KNOWN[0].name}."),
    ] = None,
) -> None:
    """Say how a function would be compiled for these arguments, and why; needs no GPU."""
    from warpsmith.tools.explain import explain_function, write_page

    if html is not None:
        typer.echo(write_page(html, function, arguments, target=target))
        return
    typer.echo(explain_function(function, arguments, with_cuda=cuda, with_sync=sync, target=target))


@app.command()
def sim(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.ptx", help="PTX, sm_90a or sm_100a.")],
    spec: Annotated[
        Path, typer.Option(metavar="SPEC.json", help="Grid, buffers, parameters: the launch.")
    ],
    name: Annotated[
        str | None, typer.Option("--kernel", help="The entry to run, where there are several.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of contents and random schedules.")] = 0,
    schedules: Annotated[
        int, typer.Option(min=1, help="How many orders of warps and copies to run.")
    ] = 4,
    budget: Annotated[
        int, typer.Option(min=1, help="Warp instructions after which a schedule ends unjudged.")
    ] = 200_000_000,
    json: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the report to this file.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write a timeline of the first schedule for Perfetto."),
    ] = None,
) -> None:
    """Run a kernel on the CPU and check it: deadlocks, races, fences, bounds.

    Exit status: 0 clean, 1 findings, 2 could not judge.
    """
    from warpsmith.tools.sim import Request, run_sim

    request = Request(
        ptx=kernel,
        spec=spec,
        kernel=name,
        seed=seed,
        schedules=schedules,
        budget=budget,
        json=json,
        trace=trace,
    )
    raise typer.Exit(run_sim(request))


@cache_app.callback(invoke_without_command=True)
def cache(
    context: typer.Context,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
) -> None:
    """Say how much is kept on disk, and how much at most, there and in each process."""
    from warpsmith.knobs import current
    from warpsmith.tools.cubins import prune, summary

    if context.invoked_subcommand is None:
        knobs = current()
        typer.echo(prune(knobs.cache_dir, 0.0) if clear else summary(knobs))


@cache_app.command("ls")
def cache_ls() -> None:
    """List the kernels on disk."""
    from warpsmith.knobs import current
    from warpsmith.tools.cubins import listing

    typer.echo(listing(current().cache_dir))


@cache_app.command("prune")
def cache_prune(
    days: Annotated[
        float, typer.Option(min=0, help="Remove what was not used for this many days.")
    ] = 30.0,
) -> None:
    """Remove old kernels from the disk; they are compiled again when they are needed."""
    from warpsmith.knobs import current
    from warpsmith.tools.cubins import prune

    typer.echo(prune(current().cache_dir, days))
