//! Control and status registers: numbers and names, those of privileged specification 1.12 and as
//! binutils has them.

/// Declares registers: number, constant, name.
macro_rules! registers {
    ($($number:literal $constant:ident $name:literal;)*) => {
        /// Numbers of the registers that have a name of their own.
        pub mod number {
            $(#[doc = concat!("`", $name, "`")] pub const $constant: u16 = $number;)*
        }

        /// Registers with a name of their own, by number.
        const NAMES: &[(u16, &str)] = &[$(($number, $name)),*];
    };
}

#[rustfmt::skip]
registers! {
    0x001 FFLAGS "fflags"; 0x002 FRM "frm"; 0x003 FCSR "fcsr"; 0x008 VSTART "vstart";
    0x009 VXSAT "vxsat"; 0x00a VXRM "vxrm"; 0x00f VCSR "vcsr"; 0x015 SEED "seed";
    0x100 SSTATUS "sstatus"; 0x104 SIE "sie"; 0x105 STVEC "stvec"; 0x106 SCOUNTEREN "scounteren";
    0x10a SENVCFG "senvcfg"; 0x114 SIEH "sieh"; 0x140 SSCRATCH "sscratch"; 0x141 SEPC "sepc";
    0x142 SCAUSE "scause"; 0x143 STVAL "stval"; 0x144 SIP "sip"; 0x14d STIMECMP "stimecmp";
    0x150 SISELECT "siselect"; 0x151 SIREG "sireg"; 0x154 SIPH "siph"; 0x15c STOPEI "stopei";
    0x15d STIMECMPH "stimecmph"; 0x180 SATP "satp"; 0x200 VSSTATUS "vsstatus"; 0x204 VSIE "vsie";
    0x205 VSTVEC "vstvec"; 0x214 VSIEH "vsieh"; 0x240 VSSCRATCH "vsscratch"; 0x241 VSEPC "vsepc";
    0x242 VSCAUSE "vscause"; 0x243 VSTVAL "vstval"; 0x244 VSIP "vsip"; 0x24d VSTIMECMP "vstimecmp";
    0x250 VSISELECT "vsiselect"; 0x251 VSIREG "vsireg"; 0x254 VSIPH "vsiph";
    0x25c VSTOPEI "vstopei"; 0x25d VSTIMECMPH "vstimecmph"; 0x280 VSATP "vsatp";
    0x300 MSTATUS "mstatus"; 0x301 MISA "misa"; 0x302 MEDELEG "medeleg"; 0x303 MIDELEG "mideleg";
    0x304 MIE "mie"; 0x305 MTVEC "mtvec"; 0x306 MCOUNTEREN "mcounteren"; 0x308 MVIEN "mvien";
    0x309 MVIP "mvip"; 0x30a MENVCFG "menvcfg"; 0x310 MSTATUSH "mstatush";
    0x313 MIDELEGH "midelegh"; 0x314 MIEH "mieh"; 0x318 MVIENH "mvienh"; 0x319 MVIPH "mviph";
    0x31a MENVCFGH "menvcfgh"; 0x320 MCOUNTINHIBIT "mcountinhibit"; 0x340 MSCRATCH "mscratch";
    0x341 MEPC "mepc"; 0x342 MCAUSE "mcause"; 0x343 MTVAL "mtval"; 0x344 MIP "mip";
    0x34a MTINST "mtinst"; 0x34b MTVAL2 "mtval2"; 0x350 MISELECT "miselect"; 0x351 MIREG "mireg";
    0x354 MIPH "miph"; 0x35c MTOPEI "mtopei"; 0x5a8 SCONTEXT "scontext"; 0x600 HSTATUS "hstatus";
    0x602 HEDELEG "hedeleg"; 0x603 HIDELEG "hideleg"; 0x604 HIE "hie";
    0x605 HTIMEDELTA "htimedelta"; 0x606 HCOUNTEREN "hcounteren"; 0x607 HGEIE "hgeie";
    0x608 HVIEN "hvien"; 0x609 HVICTL "hvictl"; 0x60a HENVCFG "henvcfg"; 0x613 HIDELEGH "hidelegh";
    0x615 HTIMEDELTAH "htimedeltah"; 0x618 HVIENH "hvienh"; 0x61a HENVCFGH "henvcfgh";
    0x643 HTVAL "htval"; 0x644 HIP "hip"; 0x645 HVIP "hvip"; 0x646 HVIPRIO1 "hviprio1";
    0x647 HVIPRIO2 "hviprio2"; 0x64a HTINST "htinst"; 0x655 HVIPH "hviph";
    0x656 HVIPRIO1H "hviprio1h"; 0x657 HVIPRIO2H "hviprio2h"; 0x680 HGATP "hgatp";
    0x6a8 HCONTEXT "hcontext"; 0x747 MSECCFG "mseccfg"; 0x757 MSECCFGH "mseccfgh";
    0x7a0 TSELECT "tselect"; 0x7a1 TDATA1 "tdata1"; 0x7a2 TDATA2 "tdata2"; 0x7a3 TDATA3 "tdata3";
    0x7a4 TINFO "tinfo"; 0x7a5 TCONTROL "tcontrol"; 0x7a8 MCONTEXT "mcontext";
    0x7aa MSCONTEXT "mscontext"; 0x7b0 DCSR "dcsr"; 0x7b1 DPC "dpc"; 0x7b2 DSCRATCH0 "dscratch0";
    0x7b3 DSCRATCH1 "dscratch1"; 0xb00 MCYCLE "mcycle"; 0xb02 MINSTRET "minstret";
    0xb80 MCYCLEH "mcycleh"; 0xb82 MINSTRETH "minstreth"; 0xc00 CYCLE "cycle"; 0xc01 TIME "time";
    0xc02 INSTRET "instret"; 0xc20 VL "vl"; 0xc21 VTYPE "vtype"; 0xc22 VLENB "vlenb";
    0xc80 CYCLEH "cycleh"; 0xc81 TIMEH "timeh"; 0xc82 INSTRETH "instreth";
    0xda0 SCOUNTOVF "scountovf"; 0xdb0 STOPI "stopi"; 0xe12 HGEIP "hgeip"; 0xeb0 VSTOPI "vstopi";
    0xf11 MVENDORID "mvendorid"; 0xf12 MARCHID "marchid"; 0xf13 MIMPID "mimpid";
    0xf14 MHARTID "mhartid"; 0xf15 MCONFIGPTR "mconfigptr"; 0xfb0 MTOPI "mtopi";
}

/// A run of numbered registers.
struct Family {
    first: u16,
    count: u16,
    prefix: &'static str,
    first_number: u16,
    suffix: &'static str,
}

const fn family(
    first: u16,
    count: u16,
    prefix: &'static str,
    first_number: u16,
    suffix: &'static str,
) -> Family {
    Family {
        first,
        count,
        prefix,
        first_number,
        suffix,
    }
}

/// Numbers of the first registers of some runs.
pub mod first {
    /// `mhpmevent3`, of 29.
    pub const MHPMEVENT3: u16 = 0x323;
    /// `pmpcfg0`, of 16.
    pub const PMPCFG0: u16 = 0x3a0;
    /// `pmpaddr0`, of 64.
    pub const PMPADDR0: u16 = 0x3b0;
    /// `mhpmcounter3`, of 29.
    pub const MHPMCOUNTER3: u16 = 0xb03;
    /// `hpmcounter3`, of 29.
    pub const HPMCOUNTER3: u16 = 0xc03;
}

const FAMILIES: &[Family] = &[
    family(0x10c, 4, "sstateen", 0, ""),
    family(0x30c, 4, "mstateen", 0, ""),
    family(0x31c, 4, "mstateen", 0, "h"),
    family(first::MHPMEVENT3, 29, "mhpmevent", 3, ""),
    family(first::PMPCFG0, 16, "pmpcfg", 0, ""),
    family(first::PMPADDR0, 64, "pmpaddr", 0, ""),
    family(0x60c, 4, "hstateen", 0, ""),
    family(0x61c, 4, "hstateen", 0, "h"),
    family(0x723, 29, "mhpmevent", 3, "h"),
    family(first::MHPMCOUNTER3, 29, "mhpmcounter", 3, ""),
    family(0xb83, 29, "mhpmcounter", 3, "h"),
    family(first::HPMCOUNTER3, 29, "hpmcounter", 3, ""),
    family(0xc83, 29, "hpmcounter", 3, "h"),
];

/// Name of CSR `number`; none if it has no standard one.
#[must_use]
pub fn name(number: u16) -> Option<String> {
    if let Ok(n) = NAMES.binary_search_by_key(&number, |&(number, _)| number) {
        return Some(NAMES[n].1.to_owned());
    }
    let family = FAMILIES
        .iter()
        .find(|f| number.wrapping_sub(f.first) < f.count)?;
    let index = family.first_number + (number - family.first);
    Some(format!("{}{index}{}", family.prefix, family.suffix))
}
