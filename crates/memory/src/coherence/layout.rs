//! Where clusters, homes and memory controllers are in a network.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::network::Topology;
use super::params::NetworkParams;

/// Stops of all nodes.
#[derive(Debug, Deserialize, Serialize)]
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
    if params.topology == "sockets" {
        return sockets(params, children, homes);
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
        _ => Topology::Crossbar { latency_cycles },
    };
    Ok(Places {
        topology,
        stops,
        controllers: 0,
    })
}

/// Stops of sockets. A home that is with the clusters or cores of its socket has a stop of its own where there are none.
fn sockets(params: &NetworkParams, children: usize, homes: usize) -> Result<Places, String> {
    let sockets = params.sockets as usize;
    let mut socket: Vec<u16> = match params.socket_nodes as usize {
        0 => (0..children).map(|n| n * sockets / children).collect(),
        each => (0..children).map(|n| n / each).collect::<Vec<_>>(),
    }
    .into_iter()
    .map(|socket| socket as u16)
    .collect();
    if socket.iter().any(|&n| usize::from(n) >= sockets) {
        let each = params.socket_nodes;
        return Err(format!(
            "socket_nodes: {sockets} sockets of {each} have no room for {children} clusters or cores"
        ));
    }
    let mut stops: Vec<u16> = (0..children as u16).collect();
    let home_socket = |home: usize| home * sockets / homes;
    for home in 0..homes {
        let here = home_socket(home);
        let beside: Vec<u16> = (0..children as u16)
            .filter(|&child| usize::from(socket[usize::from(child)]) == here)
            .collect();
        if params.homes_at == "cores" && !beside.is_empty() {
            let alike = (0..homes).filter(|&other| home_socket(other) == here);
            let [all, before] = [
                alike.clone().count(),
                alike.filter(|&other| other < home).count(),
            ];
            stops.push(beside[before * beside.len() / all]);
        } else {
            stops.push(socket.len() as u16);
            socket.push(here as u16);
        }
    }
    Ok(Places {
        topology: Topology::Sockets {
            socket,
            local_cycles: params.latency_cycles,
            links: links(params)?,
        },
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
    let mut known = HashSet::new();
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
            let (low, high) = (link.0.min(link.1), link.0.max(link.1));
            if low == high {
                return Err(format!("links: \"{word}\" links socket {low} to itself"));
            }
            if !known.insert((low, high)) {
                return Err(format!(
                    "links: \"{word}\" is a second link between sockets {low} and {high}"
                ));
            }
            Ok(link)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(topology: &str, layout: &str, links: &str) -> NetworkParams {
        NetworkParams {
            topology: topology.to_owned(),
            homes_at: "own".to_owned(),
            layout: layout.to_owned(),
            links: links.to_owned(),
            sockets: 2,
            socket_nodes: 0,
            package_sockets: 1,
            latency_cycles: 5,
            vertical_cycles: 1,
            horizontal_cycles: 2,
            stop_cycles: 1,
            control_cycles: 1,
            line_cycles: 1,
        }
    }

    #[test]
    fn stops_are_where_the_layout_has_them() {
        let placed = place(&params("mesh", "CH. BM.", ""), 2, 2).unwrap();
        // Children, homes, controllers, row by row.
        assert_eq!(placed.stops, [0, 3, 1, 3, 4]);
        assert_eq!(placed.controllers, 1);
        let smaller = place(&params("mesh", "CH. BM.", ""), 1, 1).unwrap();
        assert_eq!(smaller.stops, [0, 1, 4]);
        let apart = place(&params("crossbar", "", ""), 3, 2).unwrap();
        assert_eq!(apart.stops, [0, 1, 2, 3, 4]);
        let mut with_cores = params("ring", "", "");
        with_cores.homes_at = "cores".to_owned();
        let shared = place(&with_cores, 4, 2).unwrap();
        assert_eq!(shared.stops, [0, 1, 2, 3, 0, 2]);
        let sockets = place(&params("sockets", "", "0-1:80"), 4, 2).unwrap();
        let Topology::Sockets { socket, links, .. } = sockets.topology else {
            panic!("{:?}", sockets.topology)
        };
        assert_eq!(socket, [0, 0, 1, 1, 0, 1]);
        assert_eq!(links, [(0, 1, 80)]);
        // A system that is smaller fills the first sockets; homes of the others have stops of their own.
        let mut smaller = params("sockets", "", "0-1:80");
        smaller.socket_nodes = 4;
        smaller.homes_at = "cores".to_owned();
        let placed = place(&smaller, 2, 4).unwrap();
        let Topology::Sockets { socket, .. } = placed.topology else {
            panic!("{:?}", placed.topology)
        };
        assert_eq!(placed.stops, [0, 1, 0, 1, 2, 3]);
        assert_eq!(socket, [0, 0, 1, 1]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (params, problem) in [
            (params("mesh", "", ""), "layout: a mesh has rows"),
            (
                params("mesh", "BB B", ""),
                "layout: row 2 is not as long as the first, 2",
            ),
            (params("mesh", "BX BB", ""), "layout: 'X' is not known"),
            (
                params("mesh", "B", ""),
                "layout: the mesh has 1 stops for clusters or cores, of which there are 2",
            ),
            (
                params("mesh", "CC", ""),
                "layout: the mesh has 0 stops for homes, of which there are 1",
            ),
            (
                params("sockets", "", "0:1"),
                "links: \"0:1\" is not such as 0-1:80",
            ),
            (
                params("sockets", "", "0-2:80"),
                "links: \"0-2:80\" names socket 2, of 2",
            ),
            (
                params("sockets", "", "1-1:80"),
                "links: \"1-1:80\" links socket 1 to itself",
            ),
            (
                params("sockets", "", "0-1:80 1-0:90"),
                "links: \"1-0:90\" is a second link between sockets 0 and 1",
            ),
        ] {
            let found = place(&params, 2, 1).unwrap_err();
            assert!(found.starts_with(problem), "{found}");
        }
    }
}
