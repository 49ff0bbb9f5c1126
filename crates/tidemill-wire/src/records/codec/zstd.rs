//! Zstandard (RFC 8878), by the `zstd` crate.
//!
//! A frame is inflated in one go where the output is kept anyway: then the output is its window.
//! Where the output is looked at and dropped, the window is memory of its own, so it has a bound;
//! frames with a larger window, which levels 20 to 22 make, are inflated in one go there too.

use super::{Unfit, damaged};
use crate::records::inflater::InflateOutput;
use ::zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound,
    get_error_name, get_frame_content_size, zstd_sys::ZSTD_ErrorCode,
};

/// The largest window of a stream: 8 MiB, that of level 19.
const WINDOW_LOG_MAX: u32 = 23;
/// Room for output asked for at a time. A frame that fits and says so is inflated without a window.
const PIECE_BYTES: usize = 256 * 1024;
/// A decompressor with more memory than this is not kept.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The ratio of a frame's inflated length to its packed one that memory is first taken for.
const RATIO_BELIEVED: usize = 8;

/// The most by which a frame is longer than its packed bytes: a block of four bytes is 128 KiB.
const RATIO_MOST: usize = 32 * 1024;
/// The useful levels: LZ4 does better than those below 1.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=22;
/// The default level: that of the Java client.
const LEVEL: i32 = 3;

/// A decompressor, made when it is first needed and kept for the next chunk.
#[derive(Default)]
pub(crate) struct Decompressor(Option<DCtx<'static>>);

impl Decompressor {
    fn get(&mut self) -> Result<&mut DCtx<'static>, Unfit> {
        let kept = match self.0.take() {
            Some(kept) => kept,
            None => {
                let mut made = DCtx::try_create().ok_or_else(|| damaged("no memory for it"))?;
                made.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(named)?;
                made
            }
        };
        Ok(self.0.insert(kept))
    }

    /// Gives back memory that a stream with a large window took.
    pub(crate) fn trim(&mut self) {
        if self.bytes() > KEPT_BYTES_MAX {
            self.0 = None;
        }
    }

    /// The memory it has, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, DCtx::sizeof)
    }
}

fn named(code: usize) -> Unfit {
    damaged(get_error_name(code))
}

/// The window that the first frame asks for, if it says one.
fn window_log(packed: &[u8]) -> Option<u32> {
    let (descriptor, window) = (*packed.get(4)?, *packed.get(5)?);
    let is_single_segment = descriptor & 0x20 != 0;
    // The mantissa, three bits, makes it up to twice as large.
    (!is_single_segment).then(|| 10 + u32::from(window >> 3) + u32::from(window & 7 != 0))
}

/// Inflates frames until the bytes end.
pub(crate) fn inflate(
    packed: &[u8],
    output: &mut InflateOutput<'_>,
    kept: &mut Decompressor,
) -> Result<(), Unfit> {
    let inflater = kept.get()?;
    if output.is_kept() || window_log(packed).is_some_and(|log| log > WINDOW_LOG_MAX) {
        inflate_whole(packed, output, inflater)
    } else {
        inflate_stream(packed, output, inflater)
    }
}

fn inflate_whole(
    packed: &[u8],
    output: &mut InflateOutput<'_>,
    inflater: &mut DCtx<'_>,
) -> Result<(), Unfit> {
    let believed = packed.len().saturating_mul(RATIO_BELIEVED).max(PIECE_BYTES);
    let mut want = believed.max(output.spare());
    if let Ok(Some(said)) = get_frame_content_size(packed) {
        let said = usize::try_from(said).unwrap_or(usize::MAX);
        output.expect(said)?;
        want = want.min(said);
    }
    loop {
        let room = output.room(want.max(1));
        let length = room.len();
        match inflater.decompress(room, packed) {
            Ok(length) => return Ok(output.wrote(length)?),
            Err(code) if is_too_small(code) => {
                if length < want {
                    return Err(output.over().into());
                }
                if length / RATIO_MOST > packed.len() {
                    return Err(named(code));
                }
                want = want.max(PIECE_BYTES).saturating_mul(4);
            }
            Err(code) => return Err(named(code)),
        }
    }
}

fn is_too_small(code: usize) -> bool {
    code == 0_usize.wrapping_sub(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize)
}

fn inflate_stream(
    packed: &[u8],
    output: &mut InflateOutput<'_>,
    inflater: &mut DCtx<'_>,
) -> Result<(), Unfit> {
    inflater.reset(ResetDirective::SessionOnly).map_err(named)?;
    let mut input = InBuffer::around(packed);
    loop {
        let mut into = OutBuffer::around(output.room(PIECE_BYTES));
        let wanted = inflater.decompress_stream(&mut into, &mut input).map_err(named)?;
        let (length, is_full) = (into.pos(), into.pos() == into.capacity());
        output.wrote(length)?;
        if input.pos() == packed.len() {
            if wanted == 0 {
                return Ok(());
            }
            if !is_full {
                return Err(damaged("it is cut short"));
            }
        }
    }
}

/// Makes frames. Its tables, about 1 MiB at level 3, are kept.
pub(crate) struct ZstdDeflater {
    context: Option<CCtx<'static>>,
    level: i32,
}

impl ZstdDeflater {
    /// A deflater of this level, or of the next one that there is.
    pub(crate) fn new(level: Option<i32>) -> Self {
        let level = level.unwrap_or(LEVEL).clamp(*LEVELS.start(), *LEVELS.end());
        Self { context: CCtx::try_create(), level }
    }

    /// Appends a frame of these bytes, or says that it cannot.
    pub(crate) fn deflate(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Option<()> {
        let context = self.context.as_mut()?;
        context.set_parameter(CParameter::CompressionLevel(self.level)).ok()?;
        let at = into.len();
        into.resize(at + compress_bound(plain.len()), 0);
        let length = context.compress2(&mut into[at..], plain).ok()?;
        into.truncate(at + length);
        Some(())
    }
}
