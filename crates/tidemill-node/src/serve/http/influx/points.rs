//! A body of line protocol, taken apart into points.

use tidemill_connectors::influx_point_end;

/// Points with the numbers of their first lines, from 1; lines with nothing in them and comments are
/// left out.
pub(super) fn points_of(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let (mut rest, mut next) = (bytes, 1);
    let points = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (point, behind) = rest.split_at(influx_point_end(rest));
        let number = next;
        next += 1 + point.iter().filter(|it| **it == b'\n').count();
        rest = behind.get(1..).unwrap_or_default();
        Some((number, point.strip_suffix(b"\r").unwrap_or(point)))
    });
    points.filter(|(_, point)| !matches!(point.trim_ascii().first(), None | Some(b'#')))
}
