//! Where clusters, homes and memory controllers are in a network.

use super::network::Topology;
use super::params::NetworkParams;

/// Stops of all nodes.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) topology: Topology,
    /// The stop of each child of the homes, then of each home, then of each memory controller.
    pub(crate) stops: Vec<u16>,
    /// Memory controllers that are not at homes.
    pub(crate) controllers: usize,
}

/// Finds a stop for each of `children` and `homes`.
///
/// # Errors
/// The key, and what does not fit.
pub(crate) fn place(
    params: &NetworkParams,
    children: usize,
    homes: usize,
) -> Result<Places, String> {
    if params.topology == "mesh" {
        return mesh(params, children, homes);
    }
    let with_cores = params.homes_at == "cores";
    let spread = |home: usize| (home * children / homes) as u16;
    let own = |home: usize| (children + home) as u16;
    let mut stops: Vec<u16> = (0..children as u16).collect();
    stops.extend((0..homes).map(|home| if with_cores { spread(home) } else { own(home) }));
    let latency_cycles = params.latency_cycles;
    let topology = match params.topology.as_str() {
        "bus" => Topology::Bus { latency_cycles },
        "ring" => Topology::Ring {
            hop_cycles: latency_cycles,
        },
        "sockets" => {
            let sockets = params.sockets as usize;
            let of = |n: usize, all: usize| (n * sockets / all) as u16;
            let mut socket: Vec<u16> = (0..children).map(|n| of(n, children)).collect();
            if !with_cores {
                socket.extend((0..homes).map(|n| of(n, homes)));
            }
            Topology::Sockets {
                socket,
                local_cycles: latency_cycles,
                links: links(params)?,
            }
        }
        _ => Topology::Crossbar { latency_cycles },
    };
    Ok(Places {
        topology,
        stops,
        controllers: 0,
    })
}

fn mesh(params: &NetworkParams, children: usize, homes: usize) -> Result<Places, String> {
    let rows: Vec<&str> = params.layout.split_whitespace().collect();
    let columns = rows.first().map_or(0, |row| row.len());
    if columns == 0 {
        return Err("layout: a mesh has rows, such as \"BB BB\"".into());
    }
    let mut found = [const { Vec::new() }; 3];
    for (y, row) in rows.iter().enumerate() {
        if row.len() != columns {
            let row = y + 1;
            return Err(format!(
                "layout: row {row} is not as long as the first, {columns}"
            ));
        }
        for (x, what) in row.chars().enumerate() {
            let stop = (y * columns + x) as u16;
            let has = match what {
                'C' => [true, false, false],
                'H' => [false, true, false],
                'B' => [true, true, false],
                'M' => [false, false, true],
                '.' => [false; 3],
                other => {
                    return Err(format!(
                        "layout: '{other}' is not known, choose from: C (cluster or core), H (home), B (both), M \
                         (memory controller), . (nothing)"
                    ));
                }
            };
            for (found, has) in found.iter_mut().zip(has) {
                found.extend(has.then_some(stop));
            }
        }
    }
    let [cores, at_homes, controllers] = found;
    for (what, there, needed) in [
        ("clusters or cores", cores.len(), children),
        ("homes", at_homes.len(), homes),
    ] {
        if there < needed {
            return Err(format!(
                "layout: the mesh has {there} stops for {what}, of which there are {needed}"
            ));
        }
    }
    let count = controllers.len();
    Ok(Places {
        topology: Topology::Mesh {
            columns: columns as u16,
            vertical_cycles: params.vertical_cycles,
            horizontal_cycles: params.horizontal_cycles,
        },
        // A system that is smaller than its mesh leaves the last stops empty.
        stops: [&cores[..children], &at_homes[..homes], &controllers].concat(),
        controllers: count,
    })
}

fn links(params: &NetworkParams) -> Result<Vec<(u16, u16, u64)>, String> {
    let words = params.links.split_whitespace();
    words
        .map(|word| {
            let parse = || {
                let (pair, latency) = word.split_once(':')?;
                let (one, other) = pair.split_once('-')?;
                Some((
                    one.parse().ok()?,
                    other.parse().ok()?,
                    latency.parse().ok()?,
                ))
            };
            let link: (u16, u16, u64) =
                parse().ok_or_else(|| format!("links: \"{word}\" is not such as 0-1:80"))?;
            let most = u64::from(link.0.max(link.1));
            if most >= params.sockets {
                let sockets = params.sockets;
                return Err(format!(
                    "links: \"{word}\" names socket {most}, of {sockets}"
                ));
            }
            Ok(link)
        })
        .collect()
}
