//! Doors for fuzz targets.
