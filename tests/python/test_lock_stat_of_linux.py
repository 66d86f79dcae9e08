"""What `--lock-stats` says of the kernel's locks beside what the kernel says itself, of the same run.

The kernel with LOCK_STAT takes minutes to build, so what boots it is for `make test-long`.
"""

from __future__ import annotations

from typing import Any

import lock_stat
import pytest

from loiter import images
from loiter.images import tools
from loiter.results import Result

HARTS, ROUNDS = 4, 100

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
    found |= {f"contended_{which}_cycles": 10 * contentions for which in ("sum", "min", "max")}
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
    with pytest.raises(ValueError, match="no class"):
        lock_stat.of_kernel("lock_stat version 0.4\n", 1000)
    with pytest.raises(ValueError, match="counts no more"):
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
    assert found["b"][1].sites == {"takes_b+0x8": 1}


needs_images = pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")


@needs_images
@pytest.mark.long
@pytest.mark.simulator
class TestBeside:
    @pytest.fixture(scope="class")
    def found(self, tmp_path_factory: pytest.TempPathFactory) -> Result:
        images.build(lock_stat.IMAGE, lock_stat.RECIPE)
        return lock_stat.run(tmp_path_factory.mktemp("program"), "t1", HARTS, ROUNDS)
