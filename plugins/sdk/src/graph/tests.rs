//! Tests of the graph views.
