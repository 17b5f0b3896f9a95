//! `swb man`.

use crate::support::scene;

#[test]
fn the_page_names_every_command() {
    let ran = scene().swb(&["man"]);
    assert!(ran.expect_success().contains(".TH swb 1"), "{}", ran.to_snapshot());
    for word in ["reset\\-project\\-choices", "add\\-json", "import"] {
        assert!(ran.stdout.contains(word), "the page lacks {word}");
    }
    assert!(scene().swb(&["man", "add"]).expect_success().contains("bearer\\-token\\-env\\-var"));
    scene().swb(&["man", "nothing"]).expect_failure(2);
}
