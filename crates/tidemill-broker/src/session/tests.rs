//! Sessions wake for what is new, and read nothing else.
