//! Runs both models concurrently: detection of the next picture overlaps with recognition of the current one.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use polychip::{Policy, Report, Runtime};

use crate::detector::Detector;
use crate::picture::Picture;
use crate::recogniser::{Line, Recogniser};

/// Two sessions of one runtime.
#[derive(Debug)]
pub struct Reader {
    detector: Detector,
    recogniser: Recogniser,
}

/// A picture that was read.
#[derive(Debug)]
pub struct Page {
    /// Its lines, in the order in which one reads them.
    pub lines: Vec<Line>,
    /// What it took.
    pub times: Times,
}

/// What a picture took.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From its first pixel to its last letter.
    pub whole: Duration,
    /// Run of the detector.
    pub detector: Duration,
    /// Runs of the recogniser.
    pub recogniser: Duration,
}

impl Reader {
    /// Loads both models.
    ///
    /// # Errors
    /// One of them cannot be loaded, or is not what it should be.
    pub fn new(runtime: &Runtime, detector: &Path, recogniser: &Path, policy: &Policy) -> Result<Reader> {
        Ok(Reader {
            detector: Detector::new(runtime, detector, policy.clone()).context("the detector")?,
            recogniser: Recogniser::new(runtime, recogniser, policy.clone()).context("the recogniser")?,
        })
    }

    /// Reads pictures one after the other, the detector one picture ahead in a thread of its own.
    ///
    /// # Errors
    /// A run fails, or `each` does.
    pub fn read<'a, P>(&mut self, pictures: P, mut each: impl FnMut(Page) -> Result<()>) -> Result<()>
    where
        P: Iterator<Item = &'a Picture> + Send,
    {
        let Reader { detector, recogniser } = self;
        std::thread::scope(|scope| {
            // a page is handed over when its reader is free: the detector is one page ahead, never more
            let (send, receive) = sync_channel(0);
            scope.spawn(move || {
                for picture in pictures {
                    let start = Instant::now();
                    let found = detector.detect(picture).map(|found| (picture, start, found));
                    // an error is the last that is sent; a reader that has ended takes nothing any more
                    let is_last = found.is_err();
                    if send.send(found).is_err() || is_last {
                        return;
                    }
                }
            });
            for found in receive {
                let (picture, start, (areas, ran)) = found?;
                let mut lines = Vec::with_capacity(areas.len());
                let mut times = Times {
                    whole: Duration::ZERO,
                    detector: ran,
                    recogniser: Duration::ZERO,
                };
                for area in areas {
                    let (line, ran) = recogniser.recognise(picture, area)?;
                    lines.push(line);
                    times.recogniser += ran;
                }
                times.whole = start.elapsed();
                each(Page { lines, times })?;
            }
            Ok(())
        })
    }

    /// Figures of both sessions: the detector's and the recogniser's.
    #[must_use]
    pub fn reports(&self) -> [Report; 2] {
        [self.detector.session.report(), self.recogniser.session.report()]
    }
}
