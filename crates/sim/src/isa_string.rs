//! Changes to an ISA string: `-zawrs` takes an extension out, `+svade` puts one in.

/// Whether `text` is a list of changes and no ISA string.
pub(crate) fn is_change(text: &str) -> bool {
    text.starts_with(['-', '+'])
}

/// The ISA string `isa` after `changes`, such as `-zawrs,+svade`.
///
/// # Errors
/// What about the changes cannot be done.
pub(crate) fn changed(isa: &str, changes: &str) -> Result<String, String> {
    if !isa.starts_with("rv64") {
        return Err(format!(
            "\"{isa}\", to be changed, does not begin with rv64"
        ));
    }
    let mut parts: Vec<String> = isa.split('_').map(str::to_owned).collect();
    for change in changes.split(',').map(str::trim) {
        if let Some(name) = change.strip_prefix('-') {
            remove(&mut parts, name).ok_or_else(|| format!("{isa} has no extension \"{name}\""))?;
        } else if let Some(name) = change.strip_prefix('+') {
            let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !word {
                return Err(format!("\"{name}\" is no name of an extension"));
            }
            if name.len() > 1 && !parts.iter().any(|part| part == name) {
                parts.push(name.to_owned());
            } else if name.len() == 1 && !parts[0][4..].contains(name) {
                parts[0].push_str(name);
            }
        } else {
            return Err(format!(
                "\"{change}\" neither begins with - nor with +; write changes such as \
                 -zawrs,+svade, or a whole ISA string"
            ));
        }
    }
    Ok(parts.join("_"))
}

/// Takes out an extension: one letter of the first part, or a part of its own.
fn remove(parts: &mut Vec<String>, name: &str) -> Option<()> {
    const BASE: usize = "rv64i".len();
    if name.len() == 1 {
        let at = BASE + parts[0].get(BASE..)?.find(name)?;
        parts[0].remove(at);
        return Some(());
    }
    let at = parts.iter().skip(1).position(|part| part == name)?;
    parts.remove(at + 1);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISA: &str = "rv64imafdc_zicsr_zawrs_zba";

    #[test]
    fn extensions_come_and_go() {
        assert_eq!(changed(ISA, "-zawrs").unwrap(), "rv64imafdc_zicsr_zba");
        assert_eq!(
            changed(ISA, "-zawrs, +svade,-c").unwrap(),
            "rv64imafd_zicsr_zba_svade"
        );
        assert_eq!(
            changed(ISA, "+zba,+c,+v").unwrap(),
            "rv64imafdcv_zicsr_zawrs_zba"
        );
        assert!(is_change("-zawrs") && is_change("+c") && !is_change(ISA));
    }

    #[test]
    fn what_is_not_there_cannot_go() {
        assert!(changed(ISA, "-zawrz").unwrap_err().contains("zawrz"));
        assert!(changed(ISA, "-rv64imafdc").is_err(), "the base stays");
        assert!(changed(ISA, "-i").is_err(), "the base stays");
        assert!(changed(ISA, "-zba,svade").unwrap_err().contains("svade"));
        assert!(changed(ISA, "+").is_err());
        assert!(changed("rv6", "+c").unwrap_err().contains("\"rv6\""));
        assert_eq!(changed("rv64", "+c").unwrap(), "rv64c");
    }
}
