//! What the short forms run comes to the same as by a full executor.

use loiter_isa::{Class, Op, SINK, decode};
use loiter_machine::MachineConfig;
use loiter_types::{HartId, VirtAddr};

use super::*;
use crate::csr::Extensions;
use crate::exec::{Exec, Flow};
use crate::translate::Access;

const RAM: u64 = 0x8000_0000;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *seed ^ *seed >> 29
}

#[test]
fn short_forms_come_to_the_same() {
    let mut machine = Machine::new(&MachineConfig {
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    })
    .expect("a machine");
    let mut seed = 7;
    for offset in (0..0x1000).step_by(8) {
        let (at, value) = (PhysAddr(RAM + 0x800 + offset), next(&mut seed));
        machine.store(HartId(0), at, Width::D, value).expect("RAM");
    }
    let (mut simple, mut accesses) = (0, 0);
    for &op in Op::ALL {
        let (pattern, mask) = op.pattern().expect("an instruction of the table");
        for _ in 0..200 {
            let inst = decode(pattern | (next(&mut seed) >> 32) as u32 & !mask);
            let class = op.class();
            let runs = matches!(
                class,
                Class::Alu | Class::Branch | Class::Jump | Class::Load | Class::Store
            );
            if inst.op != op || !runs {
                continue;
            }
            let extensions = Extensions::of("rv64i_xloiterlock");
            let mut hart = Hart::new(HartId(0), RAM, PhysAddr(0), extensions);
            for slot in 1..64 {
                hart.regs[slot] = next(&mut seed);
            }
            let access = matches!(class, Class::Load | Class::Store);
            // x0 as a base leads nowhere.
            if access && inst.rs1 == 0 {
                continue;
            }
            if access {
                // Near the end of a page, and now and then over it.
                let at = RAM + 0x1000 - (next(&mut seed) >> 59);
                hart.regs[inst.rs1 as usize] = at.wrapping_sub(inst.imm as i64 as u64);
                if next(&mut seed) & 3 != 0 {
                    let remembered = [Access::Load, Access::Store]
                        .map(|access| hart.translate(&mut machine, VirtAddr(at), 1, access));
                    assert!(remembered.iter().all(Result::is_ok));
                }
            }
            let mut short = hart.clone();
            let after = short.pc + u64::from(inst.len);
            let stored = match class {
                Class::Load => {
                    if !short.run_load(&inst, &machine) {
                        continue;
                    }
                    short.pc = after;
                    None
                }
                Class::Store => {
                    let Some(stored) = short.run_store(&inst, &machine) else {
                        continue;
                    };
                    short.pc = after;
                    Some(stored)
                }
                _ => {
                    short.pc = short.run_simple(&inst, RAM, after);
                    None
                }
            };
            let mut exec = Exec::<_, true>::new(&mut hart, &mut machine);
            let flow = dispatch(&mut exec, &inst);
            exec.finish();
            assert!(matches!(flow, Flow::Next | Flow::Jump), "{op:?}: {flow:?}");
            assert_eq!(
                short.regs[..SINK as usize],
                hart.regs[..SINK as usize],
                "{op:?}"
            );
            assert_eq!(short.pc, hart.pc, "{op:?}");
            if let Some(Stored { addr, width, value }) = stored {
                let kept = u64::MAX >> (64 - 8 * width.bytes());
                assert_eq!(machine.ram.read(addr, width), Some(value & kept), "{op:?}");
            }
            simple += u32::from(!access);
            accesses += u32::from(access);
        }
    }
    assert!(simple > 5_000, "{simple} compared");
    assert!(accesses > 500, "{accesses} compared");
}
