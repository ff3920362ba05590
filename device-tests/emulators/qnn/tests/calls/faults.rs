//! Injected faults: what they do, and that everything works again after.

use crate::client::{Session, alone, faults, relu};

#[test]
fn a_restart_loses_the_device_until_it_is_created_anew() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    assert_eq!(faults("execute:2=ssr"), 1);
    let mut out = [0; 4];
    assert_eq!(graph.run(&x, &[10, 128, 130, 200], &y, &mut out), 0);
    assert_eq!(out, [128, 128, 130, 200]);
    for _ in 0..3 {
        assert_eq!(graph.run(&x, &[0; 4], &y, &mut out), 1007);
    }
    drop(session);
    let session = Session::new(Some(57));
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    assert_eq!(graph.run(&x, &[10, 128, 130, 200], &y, &mut out), 0);
    assert_eq!(faults("nonsense"), -1);
}
