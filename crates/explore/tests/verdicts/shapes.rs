//! Litmus tests from their names, by the convention of the diy tools (J. Alglave and L. Maranget, diy.inria.fr): a family
//! fixes what threads access and what is asked, then follow the edges within threads that have two accesses, in order;
//! one edge with an `s` stands for all.

/// Of each family its threads, as accesses "W or R, location, value", and what memory holds at the end.
const FAMILIES: &[(&str, &[&str], &str)] = &[
    ("SB", &["Wx1 Ry0", "Wy1 Rx0"], ""),
    ("MP", &["Wx1 Wy1", "Ry1 Rx0"], ""),
    ("LB", &["Rx1 Wy1", "Ry1 Wx1"], ""),
    ("S", &["Wx2 Wy1", "Ry1 Wx1"], "x=2"),
    ("R", &["Wx1 Wy1", "Wy2 Rx0"], "y=2"),
    ("2+2W", &["Wx2 Wy1", "Wy2 Wx1"], "x=2 /\\ y=2"),
    ("WRC", &["Wx1", "Rx1 Wy1", "Ry1 Rx0"], ""),
    ("RWC", &["Wx1", "Rx1 Ry0", "Wy1 Rx0"], ""),
    ("WWC", &["Wx2", "Rx2 Wy1", "Ry1 Wx1"], "x=2"),
    ("IRIW", &["Wx1", "Rx1 Ry0", "Wy1", "Ry1 Rx0"], ""),
    ("ISA2", &["Wx1 Wy1", "Ry1 Wz1", "Rz1 Rx0"], ""),
    ("W+RWC", &["Wx1 Wy1", "Ry1 Rz0", "Wz1 Rx0"], ""),
];

/// The test of that name, in the format of herd.
pub fn litmus(name: &str) -> Result<String, String> {
    let of_name = |family: &str| {
        let rest = name.strip_prefix(family)?;
        (rest.is_empty() || rest.starts_with('+')).then_some(rest)
    };
    let (threads, memory, rest) = FAMILIES
        .iter()
        .filter_map(|&(family, threads, memory)| Some((threads, memory, of_name(family)?)))
        .min_by_key(|(_, _, rest)| rest.len())
        .ok_or(format!("{name}: no such family"))?;
    let mut edges: Vec<String> = rest.split('+').skip(1).map(str::to_owned).collect();
    let pairs = threads.iter().filter(|thread| thread.contains(' ')).count();
    if edges.is_empty() {
        edges = vec!["po".to_owned(); pairs];
    } else if let [all] = &edges[..]
        && let Some(edge) = all.strip_suffix('s')
    {
        edges = vec![edge.to_owned(); pairs];
    }
    if edges.len() != pairs {
        return Err(format!("{name}: {pairs} threads have an edge"));
    }
    let mut edges = edges.into_iter();
    let mut columns = Vec::new();
    let mut asked: Vec<String> = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        columns.push(column(number, thread, &mut edges, &mut asked)?);
    }
    asked.extend((!memory.is_empty()).then(|| memory.to_owned()));
    Ok(text(name, &columns, &asked.join(" /\\ ")))
}

/// Locations are in s0, s1, s2; the first access of a thread uses a0 and t0, the second a1 and t1.
fn column(
    number: usize,
    thread: &str,
    edges: &mut impl Iterator<Item = String>,
    asked: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    let accesses: Vec<&str> = thread.split(' ').collect();
    let mut lines = Vec::new();
    for (n, access) in accesses.iter().enumerate() {
        let base = match &access[1..2] {
            "x" => "s0",
            "y" => "s1",
            _ => "s2",
        };
        let (is_read, value) = (access.starts_with('R'), &access[2..]);
        let (mut address, mut data) = (base, format!("t{n}"));
        if !is_read {
            lines.push(format!("li t{n},{value}"));
        }
        if n == 1 {
            let edge = edges.next().unwrap_or_default();
            match &edge[..] {
                "po" => {}
                "addr" => {
                    lines.push("xor t2,a0,a0".to_owned());
                    lines.push(format!("add s3,{base},t2"));
                    address = "s3";
                }
                "data" if !is_read => {
                    lines.push("xor t2,a0,a0".to_owned());
                    lines.push("add t2,t2,t1".to_owned());
                    "t2".clone_into(&mut data);
                }
                "ctrl" => lines.push("bne a0,zero,OUT; OUT:".to_owned()),
                "fence.tso" => lines.push(edge.clone()),
                _ => {
                    let sets = edge
                        .strip_prefix("fence.")
                        .ok_or(format!("no edge {edge}"))?;
                    lines.push(format!("fence {}", sets.replace('.', ",")));
                }
            }
        }
        if is_read {
            asked.push(format!("{number}:a{n}={value}"));
            lines.push(format!("lw a{n},0({address})"));
        } else {
            lines.push(format!("sw {data},0({address})"));
        }
    }
    Ok(lines
        .iter()
        .flat_map(|line| line.split("; "))
        .map(str::to_owned)
        .collect())
}

fn text(name: &str, columns: &[Vec<String>], condition: &str) -> String {
    let initial = |n: usize| format!("{n}:s0=x; {n}:s1=y; {n}:s2=z;");
    let initial: Vec<String> = (0..columns.len()).map(initial).collect();
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let row = |n: usize| {
        let cells = columns
            .iter()
            .map(|column| column.get(n).map_or("", String::as_str));
        cells.collect::<Vec<_>>().join(" | ") + " ;\n"
    };
    let code: String = (0..rows).map(row).collect();
    format!(
        "RISCV {name}\n{{ {} }}\n{code}exists ({condition})\n",
        initial.join(" ")
    )
}
