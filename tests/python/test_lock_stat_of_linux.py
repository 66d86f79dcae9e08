"""What `--lock-stats` says of the kernel's locks beside what the kernel says itself, of the same run.

Kernels with LOCK_STAT take minutes to build, so what boots them is for `make test-long`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lock_stat
import lock_stat_trace
import pytest

from loiter.errors import UserFault
from loiter.images import tools
from loiter.results import Result

HARTS, ROUNDS = 5, 100
# Classes that the program contends for: the table of files, the directory, its entry and the file system.
CONTENDED = ("&newf->file_lock", "&type->i_mutex_dir_key", "&dentry->d_lock", "&sbinfo->stat_lock")
SEMAPHORES = ("&type->i_mutex_dir_key",)

# As kernel/locking/lockdep_proc.c prints it, with narrower columns.
RULE = "-" * 100
SAID = f"""lock_stat version 0.4
{RULE}
    class name  con-bounces  contentions  waittime-min  waittime-max  waittime-total  waittime-avg ...
{RULE}

    &type->i_mutex_dir_key#2-W:   7   9   1.10  50.00  100.50  11.17    8  100   2.00  30.00  400.00  4.00
    &type->i_mutex_dir_key#2-R:   0   1   3.00   3.00    3.00   3.00    2   10   1.00   2.00   15.00  1.50
    --------------------------
      &type->i_mutex_dir_key#2    10    [<00000000b97d2f6b>] path_openat+0x2e8/0xb5c
    --------------------------
      &type->i_mutex_dir_key#2     8    [<00000000b97d2f6b>] path_openat+0x2e8/0xb5c

....................................................................................................

    &type->i_mutex_dir_key#2/1:   4   4   0.50   6.00   12.00   3.00    5   50   1.00   7.00   60.00  1.20
    --------------------------
    &type->i_mutex_dir_key#2/1     4    [<00000000c1ab44dd>] do_unlinkat+0xe4/0x2a4
    --------------------------
    &type->i_mutex_dir_key#2/1     4    [<00000000b97d2f6b>] path_openat+0x2e8/0xb5c

....................................................................................................

                    rcu_node_0:   0   0   0.00   0.00    0.00   0.00    3    7   0.10   0.40    1.00  0.14
"""


def row(lock: int, site: str, contentions: int, hart: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"lock": lock, "site_symbol": site, "hart": hart, "acquisitions": 10, "bounces": 1}
    found |= {"contentions": contentions, "holds": 9}
    for name, cycles in (("wait", 200), ("contended", 10 * contentions)):
        found |= {f"{name}_{which}_cycles": cycles for which in ("sum", "min", "max")}
    return found | {f"hold_{which}_cycles": 90 for which in ("sum", "min", "max")}


def test_a_class_has_its_readers_writers_and_nested_acquires() -> None:
    classes = lock_stat.of_kernel(SAID, cycles_per_us=1000)
    assert set(classes) == {"&type->i_mutex_dir_key", "rcu_node_0"}
    lock = classes["&type->i_mutex_dir_key"]
    assert (lock.acquisitions, lock.bounces, lock.holds.count) == (160, 15, 160)
    assert lock.waits == lock_stat.Times(14, pytest.approx(115_500), 500, 50_000)
    assert (lock.holds.least, lock.holds.most) == (1000, 30_000)
    assert lock.sites == {"path_openat+0x2e8": 10, "do_unlinkat+0xe4": 4}
    assert classes["rcu_node_0"].waits.count == 0


def test_what_is_no_statistic_is_refused() -> None:
    with pytest.raises(UserFault, match="no class"):
        lock_stat.of_kernel("lock_stat version 0.4\n", 1000)
    with pytest.raises(UserFault, match="counts no more"):
        lock_stat.of_kernel("*WARNING* lock debugging disabled!! - possibly due to a lockdep warning\n", 1000)


def test_a_lock_belongs_to_the_class_whose_sites_acquire_it() -> None:
    classes = {name: lock_stat.Lock(acquisitions=7) for name in ("a", "b", "c")}
    classes["a"].sites.update({"takes_a+0x8": 3, "takes_both+0x4": 1})
    classes["b"].sites.update({"takes_b+0x8": 3, "takes_both+0x4": 1})
    rows = [
        row(1, "takes_a+0x8", 2),
        row(1, "also_takes_a+0x8", 0),
        row(4, "also_takes_a+0x8", 0),
        row(2, "takes_b+0x8", 1),
        row(3, "takes_both+0x4", 1),
    ]
    found = lock_stat.beside(classes, rows)
    assert set(found) == {"a", "b"}
    kernel, ours = found["a"]
    assert (kernel.acquisitions, ours.acquisitions, ours.holds.count, ours.waits.count) == (7, 30, 27, 2)
    assert ours.waits == lock_stat.Times(2, 20, 20, 20)
    assert (ours.free.count, ours.free.mean) == (28, 580 / 28)
    assert found["b"][1].sites == {"takes_b+0x8": 1}


TRACE = """\
0 100 S 0x1000 takes+0x10  jal ra,0x2000  ra=0x1014
0 101 S 0x2000 _raw_spin_lock+0x0  c.addi sp,-16
0 110 S 0x2010 _raw_spin_lock+0x10  jalr ra,-2(ra)  ra=0x2014
0 111 S 0x3000 lock_acquire+0x0  c.addi sp,-16
0 112 S 0x3002 lock_acquire+0x2  -- supervisor timer interrupt, on to 0x4000 <handle_exception>
0 115 S 0x4000 riscv_sched_clock+0x6  csrrs a0,time,zero  a0=0x73
0 116 S 0x4004 ret_from_exception+0x60  sret
0 120 S 0x5000 riscv_sched_clock+0x6  csrrs a0,time,zero  a0=0x78
0 130 S 0x2020 _raw_spin_lock+0x20  jalr ra,-2(ra)  ra=0x2024
0 131 S 0x3100 CONTENDED+0x0  c.addi sp,-16
0 140 S 0x5000 riscv_sched_clock+0x6  csrrs a0,time,zero  a0=0x8c
0 180 S 0x2030 _raw_spin_lock+0x30  jalr ra,-2(ra)  ra=0x2034
0 181 S 0x3200 lock_acquired+0x0  c.addi sp,-16
0 190 S 0x5000 riscv_sched_clock+0x6  csrrs a0,time,zero  a0=0xbe
0 200 S 0x6000 _raw_spin_unlock+0x10  jalr ra,-2(ra)  ra=0x6014
0 201 S 0x3300 lock_release+0x0  c.addi sp,-16
0 210 S 0x5000 riscv_sched_clock+0x6  csrrs a0,time,zero  a0=0xd2
"""


def test_a_trace_has_the_kernels_own_moments() -> None:
    contended = TRACE.replace("CONTENDED", "lock_contended").splitlines()
    found = lock_stat_trace.of_trace(contended, ["takes"], range(1000))
    assert found.waits == lock_stat.Times(1, 50, 50, 50)
    assert found.holds == lock_stat.Times(1, 20, 20, 20)
    # A free lock has been held since before the first attempt, and no clock is read when it is acquired.
    free = [line for line in TRACE.splitlines() if not 130 <= int(line.split()[1]) <= 140 and " 190 " not in line]
    found = lock_stat_trace.of_trace(free, ["takes"], range(1000))
    assert (found.waits.count, found.holds) == (0, lock_stat.Times(1, 90, 90, 90))
    assert lock_stat_trace.of_trace(contended, ["others"], range(1000)).holds.count == 0
    assert lock_stat_trace.of_trace(contended, ["takes"], range(200)).holds.count == 0


@pytest.fixture(scope="module", params=lock_stat.KERNELS.values(), ids=lock_stat.KERNELS.keys())
def kernel(request: pytest.FixtureRequest) -> lock_stat.Kernel:
    found: lock_stat.Kernel = request.param
    found.build(found.counting)
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("program")


@pytest.fixture(scope="module")
def found(kernel: lock_stat.Kernel, directory: Path) -> Result:
    return lock_stat.run(directory, "t1", HARTS, ROUNDS, kernel.counting)


needs_images = pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")


@needs_images
@pytest.mark.long
@pytest.mark.simulator
class TestBeside:
    def test_counts_are_the_kernels(self, found: Result) -> None:
        pairs = lock_stat.held_against(found)
        for name in CONTENDED:
            kernel, ours = pairs[name]
            assert kernel.acquisitions == ours.acquisitions == ours.holds.count >= (HARTS - 1) * ROUNDS // 4, name
            # Objects that are made anew at an address have a lock that was on no hart before.
            assert abs(kernel.bounces - ours.bounces) <= max(1, kernel.bounces // 100), name
        assert pairs["&newf->file_lock"][1].acquisitions == (HARTS - 1) * (2 * ROUNDS + 2 * ROUNDS // 4)

    def test_contentions_and_times_differ_by_what_lockdep_does_within_a_call(self, found: Result) -> None:
        pairs = lock_stat.held_against(found)
        for name in CONTENDED:
            kernels, ours = pairs[name]
            # A call of a free lock is what lockdep does and some instructions.
            within = ours.free.mean
            # A call begins before the attempt, by less than that. The times in which one may begin and contend are as
            # long as a call and a section.
            most = kernels.waits.count * (1 + within / (within + ours.holds.mean))
            # A semaphore that nobody has but for which somebody waits is not to be had by an attempt either
            # (kernel/locking/rwsem.c, rwsem_write_trylock): the kernel counts that, and it takes longer.
            longer = ours.free.total - ours.free.count * ours.free.least
            unowned = longer // kernels.waits.least if name in SEMAPHORES else 0
            assert 0 < kernels.waits.count <= ours.waits.count + unowned, name
            assert ours.waits.count <= most, name
            # The kernel measures from after the attempt to before the return ...
            assert 0 < ours.waits.mean - kernels.waits.mean < 1.5 * within, name
            assert ours.waits.most > kernels.waits.most, name
            # ... and a section from before the attempt, where it need not wait.
            assert 0 < kernels.holds.mean - ours.holds.mean < 1.5 * within, name

    def test_only_the_kernels_own_statistics_change_what_is_simulated(
        self, found: Result, kernel: lock_stat.Kernel, directory: Path
    ) -> None:
        plain = lock_stat.run(directory, "t1", HARTS, ROUNDS, kernel.counting, lock_stats=False)
        tables = [{**result.manifest["tables"]} for result in (plain, found)]
        assert tables[0].pop("locks") != tables[1].pop("locks")
        assert tables[0] == tables[1]
        assert (plain.cycles, plain.stdout) == (found.cycles, found.stdout)

    def test_the_kernels_own_statistics_cost_much(self, kernel: lock_stat.Kernel, directory: Path) -> None:
        kernel.build(kernel.plain)
        plain, counting = (
            lock_stat.cost(directory, "t1", HARTS, ROUNDS, name) for name in (kernel.plain, kernel.counting)
        )
        # The program does the same in either, so what is more is the kernel's.
        assert counting.cycles > 2 * plain.cycles
        assert counting.outside_user_mode > 2 * plain.outside_user_mode
