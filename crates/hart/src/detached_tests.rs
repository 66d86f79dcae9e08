//! Computed apart and executed on a hart, an instruction comes to the same.

use loiter_isa::{Class, Op, decode, dispatch};
use loiter_machine::{Machine, MachineConfig};
use loiter_types::{HartId, PhysAddr};

use super::*;
use crate::csr::Extensions;
use crate::exec::{Exec, Flow};

const RAM: u64 = 0x8000_0000;

#[test]
fn computed_apart_it_comes_to_the_same() {
    let mut machine = Machine::new(&MachineConfig {
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    })
    .expect("a machine");
    for offset in 0..64 {
        let value = 0x0123_4567_89ab_cdef_u64.wrapping_mul(offset + 3);
        machine
            .store(
                HartId(0),
                PhysAddr(RAM + 0x800 + 8 * offset),
                Width::D,
                value,
            )
            .expect("RAM");
    }
    let mut compared = 0;
    let mut seed = 7_u64;
    for &op in Op::ALL {
        let (pattern, mask) = op.pattern().expect("an instruction of the table");
        for _ in 0..200 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let inst = decode(pattern | (seed >> 32) as u32 & !mask);
            if inst.op != op {
                continue;
            }
            let extensions = Extensions::of("rv64i_xloiterlock");
            let mut hart = Hart::new(HartId(0), RAM, PhysAddr(0), extensions);
            hart.csr.mark_fp_dirty();
            for slot in 1..64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                hart.regs[slot] = seed ^ seed >> 29;
            }
            if access(&inst) {
                // x0 as a base leads nowhere.
                if inst.rs1 == 0 {
                    continue;
                }
                let offset = inst.imm as i64 as u64;
                hart.regs[inst.rs1 as usize] = (RAM + 0x900 + (seed >> 58)).wrapping_sub(offset);
            }
            let operands = Operands {
                sources: [inst.rs1, inst.rs2, inst.rs3].map(|slot| hart.regs[slot as usize]),
                pc: hart.pc,
                frm: hart.csr.frm(),
            };
            let mut done = compute(&inst, &operands);
            if !done.complete {
                continue;
            }
            let mut apart = hart.clone();
            let mut exec = Exec::<_, true>::new(&mut hart, &mut machine);
            let flow = dispatch(&mut exec, &inst);
            exec.finish();
            let retires = matches!(flow, Flow::Next | Flow::Jump | Flow::Pause);
            assert!(retires, "{op:?}: {flow:?}");
            hart.retired += 1;
            if op.class() == Class::Load {
                let width = crate::access_width(op).expect("a load has a width");
                let bytes = (0..width.bytes()).rev().fold(0, |bytes, n| {
                    let byte = machine.load(PhysAddr(done.value + n), Width::B);
                    bytes << 8 | byte.expect("RAM")
                });
                done.value = extend(&inst, bytes);
            }
            apart.retire(&inst, &done);
            if op.class() != Class::Store {
                assert_eq!(
                    apart.regs[..SINK as usize],
                    hart.regs[..SINK as usize],
                    "{op:?}"
                );
            }
            assert_eq!((apart.pc, apart.retired), (hart.pc, hart.retired), "{op:?}");
            assert_eq!(apart.csr.fflags, hart.csr.fflags, "{op:?}");
            compared += 1;
        }
    }
    assert!(compared > 20_000, "{compared} compared");
}

fn access(inst: &Inst) -> bool {
    matches!(inst.op.class(), Class::Load | Class::Store)
}
