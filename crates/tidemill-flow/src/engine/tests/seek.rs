//! [`Numbers`] of which a test sees where they are sent, and whether they go there.

use super::*;

/// Looks at where a source is sent, and with which watermark; an error keeps it from going.
type Seek = Arc<dyn Fn(Position, Micros) -> Result<(), SourceError> + Send + Sync>;

pub(super) struct Sought {
    numbers: Numbers,
    seek: Seek,
}

struct SoughtSlice {
    numbers: Box<dyn Source>,
    seek: Seek,
}

impl Sought {
    pub(super) fn new(
        numbers: Numbers,
        seek: impl Fn(Position, Micros) -> Result<(), SourceError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { numbers, seek: Arc::new(seek) })
    }
}

impl SourceFactory for Sought {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let numbers = self.numbers.open(slice)?;
        Ok(Box::new(SoughtSlice { numbers, seek: Arc::clone(&self.seek) }))
    }
}

impl Source for SoughtSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        self.numbers.read(request, letters)
    }
    fn position(&self) -> Position {
        self.numbers.position()
    }
    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        (self.seek)(to, watermark)?;
        self.numbers.seek(to, watermark)
    }
    fn watermark(&self) -> Micros {
        self.numbers.watermark()
    }
}
