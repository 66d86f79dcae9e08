"""Profiles of locks as other programs print them, and what is no profile.

Samples are those of the kernel's own pages: Documentation/locking/lockstat.rst, and the commits that added
`perf lock contention --use-bpf` and its option -x.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loiter.advise import lock_stat, profile
from loiter.errors import UserFault

RULE = "-" * 120
LOCK_STAT = f"""lock_stat version 0.4
{RULE}
      class name    con-bounces    contentions   waittime-min   waittime-max waittime-total   waittime-avg \
    acq-bounces   acquisitions   holdtime-min   holdtime-max holdtime-total   holdtime-avg
{RULE}

   &mm->mmap_sem-W:     46     84   0.26    939.10   16371.53   194.90    47291    2922365   0.16  2220301.69 \
17464026916.32  5975.99
   &mm->mmap_sem-R:     37    100   1.31 299502.61  325629.52  3256.30   212344   34316685   0.10     7744.91 \
95016910.20     2.77
   ---------------
     &mm->mmap_sem              1          [<ffffffff811502a7>] khugepaged_scan_mm_slot+0x57/0x280
     &mm->mmap_sem             96          [<ffffffff815351c4>] __do_page_fault+0x1d4/0x510
   ---------------
     &mm->mmap_sem              1          [<ffffffff81046fda>] dup_mmap+0x2a/0x3f0

{"." * 120}

   unix_table_lock:    110    112   0.21     49.24     163.91     1.46    21094      66312   0.12      624.42 \
31589.81     0.48
   ---------------
   unix_table_lock             45          [<ffffffff8150ad8e>] unix_create1+0x16e/0x1b0
"""
# From `grep : /proc/lock_stat | head` of the same page.
GREPPED = """\
			clockevents_lock:       2926159        2947636           0.15       46882.81  1784540466.34         605.41 \
       3381345        3879161           0.00        2260.97    53178395.68          13.71
       &(&dentry->d_lockref.lock)->rlock:         39791          40179           0.15        1302.08       88851.96 \
           2.21        2790851       12527025           0.10        1910.75     3379714.27           0.27
"""
PERF = """\
 contended   total wait     max wait     avg wait         type   caller

        42    192.67 us     13.64 us      4.59 us     spinlock   queue_work_on+0x20
         6      6.03 s       6.03 s       1.00 s      spinlock   __tick_broadcast_oneshot_control+0xc0
         6     13.92 us      6.51 us      2.32 us        mutex   kernfs_iop_permission+0x30
                         0xffffffff9a23f4b5  kernfs_iop_permission+0x30
         2       953 ns       714 ns       476 ns     rwlock:W   sys_epoll_wait+0x148
"""
PERF_ADDRESSES = """\
 contended   total wait     max wait     avg wait            address   symbol

         3     14.99 us     14.44 us      5.00 us   ffffffff851c0940   pack_mutex (mutex)
         1       929 ns       929 ns       929 ns   ffff98d7031fb538   &task_struct (mutex)
"""
PERF_CSV = """\
# output: contended, total wait, max wait, avg wait, type, caller
19, 194232, 21415, 10222, spinlock, process_one_work+0x1f0
15, 162748, 23843, 10849, rwsem:R, do_user_addr_fault+0x40e
"""


def read(directory: Path, text: str) -> profile.Profile:
    path = directory / "profile.txt"
    path.write_text(text)
    return profile.read(path)


def test_lock_stat_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, LOCK_STAT)
    assert (found.format, found.unit, found.duration) == ("/proc/lock_stat", "ns", None)
    assert [each.name for each in found.classes] == ["&mm->mmap_sem-W", "&mm->mmap_sem-R", "unix_table_lock"]
    unix = found.classes[2]
    assert (unix.waits.count, unix.acquisitions) == (112, 66_312)
    assert unix.waits.total == pytest.approx(163_910)
    assert (unix.waits.least, unix.waits.most) == pytest.approx((210, 49_240))
    assert unix.holds is not None
    assert unix.holds.mean == pytest.approx(476, abs=1)
    assert (unix.holds.least, unix.holds.most) == pytest.approx((120, 624_420))
    assert unix.share == pytest.approx(112 / 66_312)
    # Time is kept: 476 ns are 619 cycles of 1300 MHz.
    cycles = found.in_cycles(1300).classes[2]
    assert cycles.holds is not None
    assert cycles.holds.mean == pytest.approx(619, abs=1)
    assert cycles.share == unix.share
    lines = lock_stat.lines(tmp_path / "profile.txt", LOCK_STAT)
    assert lines[1].sites == {"khugepaged_scan_mm_slot+0x57": 1, "__do_page_fault+0x1d4": 96}


def test_what_grep_leaves_of_lock_stat_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GREPPED)
    assert [each.name for each in found.classes] == ["clockevents_lock", "&(&dentry->d_lockref.lock)->rlock"]
    assert found.classes[0].share == pytest.approx(0.76, abs=0.001)
    assert [each.name for each in found.chosen([], 1)] == ["clockevents_lock"]


def test_lock_stat_without_averages_is_read(tmp_path: Path) -> None:
    numbers = "1534627 1575341 0.57 18.39 675713.23 43330446 138524248 0.43 148.13 54133607.05"
    found = read(tmp_path, f"lock_stat version 0.3\n   &counter->lock:  {numbers}\n")
    assert found.classes[0].waits.mean == pytest.approx(428.9, abs=0.1)


def test_the_text_of_perf_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, PERF)
    assert (found.format, found.unit) == ("perf lock contention", "ns")
    by_name = {each.name: each for each in found.classes}
    assert list(by_name) == [
        "queue_work_on+0x20",
        "__tick_broadcast_oneshot_control+0xc0",
        "kernfs_iop_permission+0x30",
        "sys_epoll_wait+0x148",
    ]
    first = by_name["queue_work_on+0x20"]
    assert (first.waits.count, first.kind) == (42, "spinlock")
    assert first.waits.total == pytest.approx(192_670)
    assert first.waits.most == pytest.approx(13_640)
    assert first.acquisitions is first.holds is first.share is None
    assert by_name["__tick_broadcast_oneshot_control+0xc0"].waits.total == pytest.approx(6.03e9)
    assert by_name["sys_epoll_wait+0x148"].waits.most == pytest.approx(714)
    assert found.chosen([], 1)[0].name == "__tick_broadcast_oneshot_control+0xc0"


def test_locks_by_address_have_their_symbols(tmp_path: Path) -> None:
    found = read(tmp_path, PERF_ADDRESSES)
    assert [(each.name, each.kind, each.waits.count) for each in found.classes] == [
        ("pack_mutex", "mutex", 3),
        ("&task_struct", "mutex", 1),
    ]


def test_separated_fields_of_perf_are_nanoseconds(tmp_path: Path) -> None:
    for text in (PERF_CSV, PERF_CSV.replace(",", ";")):
        found = read(tmp_path, text)
        assert [(each.name, each.kind) for each in found.classes] == [
            ("process_one_work+0x1f0", "spinlock"),
            ("do_user_addr_fault+0x40e", "rwsem:R"),
        ]
        assert found.classes[0].waits.total == 194_232
        assert found.classes[0].waits.mean == pytest.approx(10_222, abs=1)


def test_what_is_there_twice_is_told_apart(tmp_path: Path) -> None:
    found = read(tmp_path, PERF_CSV + "1, 5, 5, 5, spinlock, process_one_work+0x1f0\n")
    assert [each.name for each in found.classes][::2] == ["process_one_work+0x1f0", "process_one_work+0x1f0 (2)"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "no lock profile. Expected the output of `perf lock contention`"),
        ("", "no lock profile"),
        ("lock_stat version 0.4\n", "no class of locks; is /proc/sys/kernel/lock_stat 1?"),
        ("lock_stat version 0.9\n", "line 1: version 0.9 of lock_stat; known are 0.3, 0.4"),
        ("lock_stat version 0.4\n*WARNING* lock debugging disabled!!\n", "line 2: lockdep has found a fault"),
        ("lock_stat version 0.4\n a_lock: 1 2 3.0\n", "line 2: a_lock has 3 numbers; a class has 12: con-bounces,"),
        (LOCK_STAT.replace("163.91", "163.9x"), "waittime-total is '163.9x', which is no number"),
        (LOCK_STAT.replace("     112 ", "      -1 ").replace("    112 ", "    -1 "), "contentions is -1"),
        ("lock_stat version 0.4\nwhat is this\n", "line 2: neither a class nor a contention point: 'what is this'"),
        (PERF.replace("192.67 us", "192.67 xx"), "line 3: total wait is no time with a unit (ns, us, ms, s, m, h)"),
        (PERF.replace("        42 ", "        4z "), "line 3: contended is '4z', which is no number"),
        (
            PERF.replace("   queue_work_on+0x20", "").replace("spinlock\n", "\n"),
            "line 3: it ends where type and caller",
        ),
        (PERF[: PERF.index("\n")] + "\n\n", "no line below the one that names the columns (line 1)"),
        (
            PERF.replace("        type   caller", "         pid   comm"),
            "line 1: lines are by pid and comm, not by lock",
        ),
        (" contended   max wait  type  caller\n 3 4 ns x y\n", "no column of what is contended and of its total wait"),
        (PERF_CSV.replace(" spinlock,", ""), "line 2: 5 fields; line 1 names 6: contended, total wait"),
        (PERF_CSV.replace("21415", "many"), "line 2: max wait is 'many', which is no number"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserFault) as fault:
        read(tmp_path, text)
    assert said in str(fault.value)
    assert str(fault.value).startswith(str(tmp_path / "profile.txt"))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="there is no such file"):
        profile.read(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserFault, match="no lock profile"):
        profile.read(tmp_path / "bytes")
    with pytest.raises(UserFault, match="no result directory"):
        profile.read(tmp_path)


def test_classes_are_chosen_by_name_or_by_their_waits(tmp_path: Path) -> None:
    found = read(tmp_path, LOCK_STAT)
    assert [each.name for each in found.chosen([], 2)] == ["&mm->mmap_sem-R", "&mm->mmap_sem-W"]
    assert [each.name for each in found.chosen(["unix_table_lock"], 1)] == ["unix_table_lock"]
    with pytest.raises(UserFault, match=r"did you mean \"unix_table_lock\""):
        found.chosen(["unix_table_loc"], 1)
    idle = read(tmp_path, "lock_stat version 0.4\n a_lock: 0 0 0.00 0.00 0.00 0.00 3 7 0.10 0.40 1.00 0.14\n")
    with pytest.raises(UserFault, match="nobody waited for any lock"):
        idle.chosen([], 1)
    with pytest.raises(UserFault, match="nobody waited for a_lock"):
        idle.chosen(["a_lock"], 1)
