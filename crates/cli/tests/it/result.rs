//! `swb result`.

use crate::support::scene;

#[test]
fn an_invalid_result_id_is_refused_before_any_read() {
    let scene = scene();
    for id in ["", "x", "../0123456789abcdef0123", "0123456789ABCDEF01234567"] {
        assert_eq!(scene.swb(&["result", id]).code, 2, "{id}");
    }
    assert_eq!(scene.swb(&["result", "0123456789abcdef01234567", "--lines", "5-1"]).code, 2);
    assert_eq!(scene.swb(&["result", "0123456789abcdef01234567"]).code, 5);
}
