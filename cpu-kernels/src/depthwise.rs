//! Depthwise convolutions of channels-last images, one row of output pixels at a time.
#![allow(unsafe_code)]
