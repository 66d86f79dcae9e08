use loiter_types::VirtAddr;

use super::SymbolTable;
use crate::RAM_BASE;
use crate::testing::{FILE, FUNCTION, GLOBAL, LABEL, OBJECT, TestElf, TestSymbol, symbol};

fn table(symbols: Vec<TestSymbol>) -> SymbolTable {
    TestElf {
        symbols,
        section_bytes: 0x1000,
        ..TestElf::default()
    }
    .image()
    .symbols
}

fn find(table: &SymbolTable, offset: u64) -> Option<(&str, u64)> {
    table.find(VirtAddr(RAM_BASE + offset))
}

#[test]
fn an_address_belongs_to_the_symbol_that_covers_it() {
    let table = table(vec![
        symbol("second", RAM_BASE + 0x40, 0x20, FUNCTION | GLOBAL),
        symbol("first", RAM_BASE + 0x10, 0x20, FUNCTION),
    ]);
    assert_eq!(find(&table, 0x0f), None);
    assert_eq!(find(&table, 0x10), Some(("first", 0)));
    assert_eq!(find(&table, 0x2f), Some(("first", 0x1f)));
    assert_eq!(find(&table, 0x30), None, "a gap between sized symbols");
    assert_eq!(find(&table, 0x40), Some(("second", 0)));
    assert_eq!(find(&table, 0x60), None);
}

#[test]
fn a_label_reaches_to_the_end_of_its_section() {
    let table = table(vec![
        symbol("_start", RAM_BASE, 0, LABEL | GLOBAL),
        symbol("_end", RAM_BASE + 0x1000, 0, LABEL | GLOBAL),
    ]);
    assert_eq!(find(&table, 0xfff), Some(("_start", 0xfff)));
    assert_eq!(find(&table, 0x1000), None);
}

#[test]
fn an_address_after_an_inner_symbol_belongs_to_the_outer_one() {
    let table = table(vec![
        symbol("outer", RAM_BASE, 0x100, FUNCTION),
        symbol("inner", RAM_BASE + 0x10, 0x10, FUNCTION),
    ]);
    assert_eq!(find(&table, 0x18), Some(("inner", 8)));
    assert_eq!(find(&table, 0x20), Some(("outer", 0x20)));
}

#[test]
fn of_several_names_the_best_is_used() {
    let table = table(vec![
        symbol("local", RAM_BASE, 8, FUNCTION),
        symbol("public", RAM_BASE, 8, FUNCTION | GLOBAL),
        symbol("label", RAM_BASE, 0, LABEL | GLOBAL),
        symbol("object", RAM_BASE, 8, OBJECT | GLOBAL),
    ]);
    assert_eq!(find(&table, 4), Some(("public", 4)));
    assert_eq!(table.len(), 4);
}

#[test]
fn of_several_symbols_with_one_name_the_best_is_used() {
    let table = table(vec![
        symbol("lock", RAM_BASE + 8, 8, OBJECT),
        symbol("lock", RAM_BASE + 16, 8, OBJECT | GLOBAL),
        symbol("lock", RAM_BASE, 8, OBJECT),
    ]);
    assert_eq!(table.by_name("lock"), Some(VirtAddr(RAM_BASE + 16)));
    assert_eq!(table.with_prefix("lo").count(), 1);
}

#[test]
fn by_prefix_in_the_order_of_names() {
    let table = table(vec![
        symbol("loiter_task_sort", RAM_BASE + 8, 4, FUNCTION | GLOBAL),
        symbol("loiter_tasj", RAM_BASE + 24, 4, FUNCTION | GLOBAL),
        symbol("loiter_task_add", RAM_BASE + 4, 4, FUNCTION | GLOBAL),
        symbol("main", RAM_BASE, 4, FUNCTION | GLOBAL),
        symbol("loiter_tasl", RAM_BASE + 28, 4, FUNCTION | GLOBAL),
    ]);
    let tasks: Vec<_> = table.with_prefix("loiter_task_").collect();
    let expected = [
        ("loiter_task_add", VirtAddr(RAM_BASE + 4)),
        ("loiter_task_sort", VirtAddr(RAM_BASE + 8)),
    ];
    assert_eq!(tasks, expected);
    assert_eq!(table.with_prefix("x").count(), 0);
    assert_eq!(table.with_prefix("").count(), 5);
    assert_eq!(table.by_name("loiter_task_"), None);
}

#[test]
fn what_names_no_address_is_left_out() {
    let outside = |name, info, section| TestSymbol {
        section,
        ..symbol(name, RAM_BASE, 0, info)
    };
    let table = table(vec![
        symbol("main.c", 0, 0, FILE),
        symbol(".L1", RAM_BASE, 0, LABEL),
        symbol("$xrv64i2p1", RAM_BASE, 0, LABEL),
        symbol("", RAM_BASE, 0, LABEL),
        outside("missing", LABEL | GLOBAL, 0),
        outside("constant", LABEL | GLOBAL, 0xfff1),
    ]);
    assert_eq!(table.len(), 1);
    assert_eq!(table.by_name("constant"), Some(VirtAddr(RAM_BASE)));
    assert_eq!(
        find(&table, 0),
        None,
        "an absolute symbol has a value but no extent"
    );
}

#[test]
fn of_a_maps_names_at_one_address_a_sections_bound_is_not_the_function() {
    let map = "ffffffff80c00000 T __noinstr_text_start\nffffffff80c00000 T arch_cpu_idle\n\
               ffffffff80c00010 t __cond_resched\nffffffff80c00010 T cond_resched\nffffffff80c00020 T __sched_text_start\n\
               ffffffff80c00020 T __schedule\nffffffff80c00030 T _end\n";
    let table = SymbolTable::read_map(map).unwrap();
    let name = |addr| table.find(VirtAddr(addr)).map(|(name, _)| name);
    assert_eq!(name(0xffff_ffff_80c0_0004), Some("arch_cpu_idle"));
    assert_eq!(name(0xffff_ffff_80c0_0014), Some("cond_resched"));
    assert_eq!(name(0xffff_ffff_80c0_0024), Some("__schedule"));
}
