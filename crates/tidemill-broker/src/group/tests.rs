//! Groups against models.
