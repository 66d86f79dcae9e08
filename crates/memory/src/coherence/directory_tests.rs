use super::*;

const MESI: Protocol = Protocol {
    exclusive: true,
    owned: false,
    forward: false,
    broadcasts: false,
};
const MOESI: Protocol = Protocol {
    owned: true,
    ..MESI
};
const MESIF: Protocol = Protocol {
    forward: true,
    ..MESI
};

fn set(children: &[u16]) -> Holders {
    children
        .iter()
        .fold(Holders::NONE, |set, &child| set.with(child))
}

fn entry(owner: impl Into<Option<u16>>, sharers: &[u16]) -> Entry {
    Entry {
        owner: owner.into(),
        sharers: set(sharers),
    }
}

fn known(entry: Entry) -> Known {
    Known {
        entry,
        home_has: true,
        may_write: true,
        children: 4,
    }
}

/// What a read by child 2 leads to: who supplies, the grant, and who holds the line afterwards.
fn read_by_2(protocol: Protocol, before: Entry) -> (Supply, State, Entry) {
    let step = step(protocol, known(before), 2, false, Want::Read);
    assert_eq!((step.keep, step.lose), (Keep::Copy, Holders::NONE));
    (step.supply, step.grant, step.after)
}

#[test]
fn a_read_is_supplied_by_the_owner_and_else_by_home() {
    for protocol in [MESI, MOESI, MESIF] {
        let alone = (Supply::Home, State::Exclusive, entry(2, &[]));
        assert_eq!(read_by_2(protocol, entry(None, &[])), alone);
        // Its own copy, which it has dropped, does not count.
        assert_eq!(read_by_2(protocol, entry(None, &[2])), alone);
    }
    for (protocol, grant, after) in [
        (MESI, State::Shared, entry(None, &[1, 2])),
        (MOESI, State::Shared, entry(1, &[2])),
        (MESIF, State::Forward, entry(2, &[1])),
    ] {
        assert_eq!(
            read_by_2(protocol, entry(1, &[])),
            (Supply::Child(1), grant, after)
        );
    }
    assert_eq!(
        read_by_2(MESIF, entry(1, &[0])),
        (Supply::Child(1), State::Forward, entry(2, &[0, 1]))
    );
    assert_eq!(
        read_by_2(MOESI, entry(None, &[0])),
        (Supply::Home, State::Shared, entry(None, &[0, 2]))
    );
}

#[test]
fn who_may_not_write_grants_no_right_to_and_counts_on_its_children() {
    let mut known = known(entry(None, &[]));
    known.may_write = false;
    let alone = step(MESI, known, 2, false, Want::Read);
    assert_eq!(
        (alone.grant, alone.after),
        (State::Shared, entry(None, &[2]))
    );
    known.entry = entry(None, &[1, 3]);
    known.home_has = false;
    let shared = step(MESI, known, 3, false, Want::Read);
    assert_eq!(shared.supply, Supply::Child(1));
}

#[test]
fn instructions_are_never_granted_the_right_to_write() {
    for protocol in [MESI, MOESI, MESIF] {
        let step = step(protocol, known(entry(None, &[])), 0, false, Want::Fetch);
        assert_eq!((step.grant, step.after), (State::Shared, entry(None, &[0])));
    }
}

#[test]
fn all_others_lose_what_one_writes() {
    for protocol in [MESI, MOESI, MESIF] {
        let own = |before, has_copy| {
            let step = step(protocol, known(before), 2, has_copy, Want::Own);
            assert_eq!((step.grant, step.after), (State::Modified, entry(2, &[])));
            (step.supply, step.lose)
        };
        assert_eq!(own(entry(None, &[]), false), (Supply::Home, set(&[])));
        assert_eq!(own(entry(1, &[]), false), (Supply::Child(1), set(&[])));
        assert_eq!(own(entry(1, &[0]), false), (Supply::Child(1), set(&[0])));
        assert_eq!(own(entry(1, &[0, 2]), true), (Supply::Nobody, set(&[0, 1])));
        // It has dropped its copy, or lost it since it asked.
        assert_eq!(own(entry(None, &[0, 2]), false), (Supply::Home, set(&[0])));
        assert_eq!(own(entry(None, &[0]), true), (Supply::Home, set(&[0])));
        assert_eq!(own(entry(2, &[3]), true), (Supply::Nobody, set(&[3])));
    }
}

#[test]
fn a_directory_without_sharers_tells_all_children() {
    let protocol = Protocol {
        broadcasts: true,
        ..MOESI
    };
    let lose = |before| step(protocol, known(before), 2, false, Want::Own).lose;
    assert_eq!(lose(entry(1, &[])), set(&[]), "the owner is known");
    assert_eq!(lose(entry(1, &[2])), set(&[0, 3]));
    assert_eq!(lose(entry(None, &[2])), set(&[0, 1, 3]));
}

#[test]
fn what_home_does_itself_leaves_nobody_a_copy_and_a_walk_everybody() {
    let before = entry(1, &[0, 2]);
    let at_home = step(MOESI, known(before), 2, true, Want::AtHome);
    assert_eq!(at_home.supply, Supply::Child(1));
    assert_eq!(
        (at_home.lose, at_home.after),
        (set(&[0, 2]), entry(None, &[]))
    );
    let recall = recall(MOESI, known(before));
    assert_eq!(recall, at_home);
    let walk = step(MOESI, known(before), 2, false, Want::Walk);
    assert_eq!((walk.supply, walk.keep), (Supply::Child(1), Keep::All));
    assert_eq!((walk.lose, walk.after), (set(&[]), before));
}

#[test]
fn a_supplier_keeps_what_its_protocol_has() {
    use State::{Exclusive, Forward, Invalid, Modified, Owned, Shared};
    for (protocol, from, kept, home_gets_it) in [
        (MESI, Modified, Shared, true),
        (MESI, Exclusive, Shared, false),
        (MESIF, Modified, Shared, true),
        (MESIF, Forward, Shared, false),
        (MOESI, Modified, Owned, false),
        (MOESI, Owned, Owned, false),
        (MOESI, Exclusive, Forward, false),
        (MOESI, Forward, Forward, false),
        (MOESI, Shared, Shared, false),
        (MOESI, Invalid, Invalid, false),
    ] {
        let found = supplied(protocol, from, Keep::Copy);
        assert_eq!(found, (kept, home_gets_it), "{protocol:?} {from:?}");
        assert_eq!(supplied(protocol, from, Keep::All), (from, false));
        let taken = supplied(protocol, from, Keep::Nothing);
        assert_eq!(taken, (Invalid, from.is_dirty()));
    }
}
