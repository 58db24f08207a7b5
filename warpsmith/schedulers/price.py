"""How long the kernel of a candidate takes in a call, whatever its scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain
from warpsmith.schedulers.candidate import PERSISTENT, Candidate
from warpsmith.schedulers.matmul import heuristic as matmul
from warpsmith.schedulers.matmul.model import START_US
from warpsmith.schedulers.matmul_by_threads.model import product_us
from warpsmith.schedulers.pointwise import heuristic as pointwise
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.scan import heuristic as scan
from warpsmith.schedulers.traffic import Traffic, traffic


def kernel_us(candidate: Candidate, problem: Problem) -> float:
    """Microseconds, the launch among them, for sizes that the candidate supports.

    Models of rows predict many rows, to choose a shape by; here it is those of the call that count,
    and all kernels that move the same bytes are taken to be equally fast.
    """
    if candidate.scheduler == "matmul":
        return matmul.best_way(matmul.works_of(candidate.fusion, problem), problem)[1]
    done = traffic_of(candidate, problem).us(problem.target)
    given = candidate.fusion, candidate.domains, candidate.caches, problem
    if candidate.scheduler == "matmul_by_threads":
        return max(done, product_us(matmul.product_of(candidate.fusion), problem))
    if candidate.scheduler == "scan":
        waited = min(us for _, us in scan.candidates(*given))
        return max(done, waited + problem.target.rates.launch_us)
    return done


def bounds(candidate: Candidate, problem: Problem) -> dict[str, float]:
    """Microseconds for which each resource works if nothing else holds it up: the most of them is
    what no schedule of the kernel is faster than, by the model.
    """
    target = problem.target
    busy = traffic_of(candidate, problem).busy(target)
    if candidate.scheduler in ("matmul", "matmul_by_threads"):
        busy = {"memory": busy["memory"]}  # nobody counts the rest of what tiles take
    if candidate.scheduler == "matmul":
        work = matmul.works_of(candidate.fusion, problem)[0]
        terms = work.batches * work.products * work.m * work.n * work.k * work.element
        busy["tensor cores"] = terms / target.rates.tensor
    if candidate.scheduler == "matmul_by_threads":
        product = matmul.product_of(candidate.fusion)
        busy["products by threads"] = product_us(product, problem) - START_US
    return busy


def traffic_of(candidate: Candidate, problem: Problem) -> Traffic:
    """What the kernel moves and computes, but for what a product's operands take."""
    fusion, domains, caches = candidate.fusion, candidate.domains, candidate.caches
    turned = None
    if candidate.scheduler == "pointwise":
        turned = pointwise.choose(fusion, domains, caches, problem).transposed
    staged = turned.names if turned else ()
    return traffic(fusion, domains, caches, _walked(candidate), problem, staged)


def _walked(candidate: Candidate) -> Sequence[IterDomain]:
    """The dimensions of a kernel's loops, slowest first; none where nobody knows them, as of a
    product, whose tiles do not walk them in order.
    """
    fusion, domains, caches = candidate.fusion, candidate.domains, candidate.caches
    if candidate.scheduler == "pointwise":
        return pointwise.inner_run(fusion, domains, caches).axes
    if candidate.scheduler == "scan":
        return scan.axes_of(fusion, caches, domains)
    if candidate.scheduler in ("reduction", *PERSISTENT):
        return Rows(fusion, domains, caches).axes
    return ()
