"""Jobs on our own threads: in order, with their errors, nested, concurrent, forked."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from kernels.blocks import Rows

from mixtailor.kernels import distances, threads


def run_python(program: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_results_come_in_order():
    """Early jobs that finish late still come first."""

    def job(i: int) -> int:
        time.sleep(0.02 if i % 7 == 0 else 0)
        return i * i

    jobs = [lambda i=i: job(i) for i in range(50)]
    assert list(threads.over(jobs)) == [i * i for i in range(50)]
    assert list(threads.over([])) == []
    assert list(threads.over([lambda: "one"])) == ["one"]


def test_each_job_runs_once():
    done: list[int] = []
    threads.over([lambda i=i: done.append(i) for i in range(200)])
    assert sorted(done) == list(range(200))


def test_an_error_reaches_the_caller_and_leaves_the_threads_usable():
    """The first error, by order of the jobs, is raised as it is; the next call works."""

    def fail(i: int) -> None:
        raise ValueError(f"job {i}")

    for _ in range(20):
        jobs = [lambda i=i: fail(i) if i in (3, 9) else i for i in range(16)]
        with pytest.raises(ValueError, match="job 3"):
            threads.over(jobs)
        assert list(threads.over([lambda i=i: i for i in range(16)])) == list(range(16))


def test_errors_of_a_single_and_of_a_nested_job():
    def fail() -> None:
        raise KeyError("inner")

    with pytest.raises(KeyError, match="inner"):
        threads.over([fail])
    with pytest.raises(KeyError, match="inner"):
        threads.over([lambda: threads.over([fail, fail]), lambda: None])


def test_nested_jobs_run_in_the_thread_that_asked():
    """A job that asks for jobs must not wait for threads that wait for it: even idle ones take none of them."""
    program = """
import threading, time
from mixtailor.kernels import threads
def who():
    time.sleep(0.005)
    return threading.get_ident()
def inner():
    return set(threads.over([who] * 20)) == {threading.get_ident()}
print(threads.over([inner, lambda: 0, lambda: 0, lambda: 0]))
"""
    assert run_python(program, NUMBA_NUM_THREADS="4") == "[True, 0, 0, 0]"
    depth = threads.over([lambda: threads.over([lambda: threads.over([lambda: 1] * 3)] * 3)] * 3)
    assert depth == [[[1] * 3] * 3] * 3


def test_several_threads_may_ask_at_once():
    """Concurrent callers get their own results, none of them hangs, errors stay with the one who caused them."""
    answers: dict[int, object] = {}

    def caller(k: int) -> None:
        try:
            for _ in range(30):
                got = list(threads.over([lambda i=i: (k, i) if k != 5 else 1 // (7 - i) for i in range(20)]))
                assert got == [(k, i) for i in range(20)]
            answers[k] = "right"
        except ZeroDivisionError:
            answers[k] = "error"

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert answers == {k: "error" if k == 5 else "right" for k in range(8)}


def test_kernels_run_at_the_same_time():
    """Eight callers with kernels on several runs of one matrix all get what one thread gets."""
    x = np.random.default_rng(0).normal(size=(12, 8000)).astype(np.float32)
    case = Rows(x)
    powers = np.array([2.0, 3.0])

    def part(start: int) -> np.ndarray:
        return distances.pair_sums(case.addresses + start * x.itemsize, case.like, 1000, powers)

    jobs = [lambda start=start: part(start) for start in range(0, 8000, 1000)]
    expected = [job() for job in jobs]
    answers: list[bool] = []

    def caller() -> None:
        for _ in range(10):
            answers.append(all((a == b).all() for a, b in zip(threads.over(jobs), expected, strict=True)))

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert answers == [True] * 80


def test_count_is_what_the_environment_says():
    """NUMBA_NUM_THREADS bounds how many jobs are under way at once, the caller's thread among them."""
    program = """
import threading, time
from mixtailor.kernels import threads
lock, now, most, who = threading.Lock(), 0, 0, set()
def job():
    global now, most
    with lock:
        now += 1
        most = max(most, now)
        who.add(threading.get_ident())
    time.sleep(0.03)
    with lock:
        now -= 1
threads.over([job] * 12)
print(threads.count(), most, len(who))
"""
    assert run_python(program, NUMBA_NUM_THREADS="1") == "1 1 1"
    count, most, who = map(int, run_python(program, NUMBA_NUM_THREADS="3").split())
    assert count == 3 and most == 3 and who == 3


def test_count_is_positive():
    assert threads.count() >= 1


def test_processes_share_the_threads():
    """Of three threads, two processes get one each, and one alone gets all again."""
    program = """
from mixtailor.kernels import threads
with threads.shared(2):
    shared = threads.count()
print(shared, threads.count())
"""
    assert run_python(program, NUMBA_NUM_THREADS="3").split() == ["1", "3"]


def test_work_is_shared():
    """With two threads allowed, two jobs that wait for each other both finish, and the slower one is waited for."""
    program = """
import threading, time
from mixtailor.kernels import threads
meet = threading.Barrier(2)
def job():
    meet.wait(30)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.3)
    return True
print(threads.over([job, job]))
"""
    assert run_python(program, NUMBA_NUM_THREADS="2") == "[True, True]"


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork in a process with threads
from mixtailor.kernels import threads
jobs = [lambda i=i: i for i in range(50)]
assert list(threads.over(jobs)) == list(range(50))
def met():
    meet = threading.Barrier(2)
    try:
        threads.over([lambda: meet.wait(5)] * 2)
    except threading.BrokenBarrierError:
        return False
    return True
def in_child(two_at_once=False):
    child = os.fork()
    if child == 0:
        right = list(threads.over(jobs)) == list(range(50)) and (not two_at_once or met())
        os._exit(0 if right and threads.over([os.getpid] * 4) == [os.getpid()] * 4 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(in_child(True), {where})
assert list(threads.over(jobs)) == list(range(50))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_starts_its_own_threads():
    """The parent's threads do not exist in the child, which must neither wait for them nor do without."""
    assert run_python(FORK.format(where="0"), NUMBA_NUM_THREADS="4") == "0 0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_inside_a_job():
    """A child born in a job is usable as well."""
    where = "threads.over([in_child, in_child, in_child])"
    assert run_python(FORK.format(where=where), NUMBA_NUM_THREADS="4") == "0 [0, 0, 0]"


def _child(queue: multiprocessing.Queue[list[int]]) -> None:
    queue.put(list(threads.over([lambda i=i: i for i in range(30)])))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn of fork with threads: the point
def test_multiprocessing_by_fork():
    """As a data loader does it: the pool is warm in the parent and used in the child."""
    threads.over([lambda i=i: i for i in range(30)])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == list(range(30))
    child.join(60)
    assert child.exitcode == 0


def test_an_idle_pool_keeps_nothing_alive():
    """Arrays that jobs held are free when the call has returned."""
    import gc
    import weakref

    class Held:
        pass

    held = Held()
    watch = weakref.ref(held)
    threads.over([lambda held=held: id(held) > 0 for _ in range(8)])
    del held
    for _ in range(200):
        gc.collect()
        if watch() is None:
            return
        time.sleep(0.01)
    pytest.fail("a thread still holds the jobs of a call that has returned")


def test_the_interpreter_ends_with_threads_waiting():
    """Idle threads must not keep a program from ending."""
    program = "from mixtailor.kernels import threads; print(threads.over([lambda: 1] * 9))"
    assert run_python(program, NUMBA_NUM_THREADS="4") == str([1] * 9)
