//! Language models run as apps run them. One program holds them all, because each test program links the whole library.

mod adapter;
mod batch;
mod checkpoint;
mod forward;
mod generate;
mod grammar;
mod saved;
mod speculation;
mod split;
mod stream;
