//! Repository automation. The checks in `tidy` run as ordinary tests: `cargo test -p xtask`.

#[cfg(test)]
mod tidy;

fn main() {
    println!("The checks of this crate are tests: cargo test -p xtask");
}
