//! Two small pictures, byte for byte. `SWB_BLESS=1` draws them anew; look at them then.

use std::fs;
use std::path::Path;

use super::{Bars, Lines, Role, Series, Tick};

fn check(name: &str, drawn: &str) {
    // Asked for at run time: a build folder may be shared by several clones.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo and nextest set it for tests");
    let path = Path::new(&package).join("src/plot").join(name);
    if std::env::var_os("SWB_BLESS").is_some() {
        fs::write(&path, drawn).expect("the picture can be written");
    }
    let kept = fs::read_to_string(&path).expect("the picture is kept");
    assert_eq!(drawn, kept, "{name} is drawn otherwise");
}

#[test]
fn line_plots_match_the_golden_file() {
    let stops = [1, 5, 50].map(Tick::of).to_vec();
    let series = vec![
        Series::new("floor", Role::Baseline, vec![Some(1.0), Some(2.0), Some(9.0)]),
        Series::new("**ours**", Role::Ours, vec![Some(1.5), Some(3.0), Some(12.0)]),
        Series::new(
            "written by hand, <serde_json> & pipes",
            Role::Other,
            vec![Some(40.0), None, Some(900.0)],
        ),
    ];
    let (across, upwards) = ("servers", "milliseconds");
    check(
        "golden-lines.svg",
        &Lines { title: "Growth", x_axis: across, y_axis: upwards, ticks: stops, series }.draw(),
    );
}

#[test]
fn bar_plots_match_the_golden_file() {
    let groups = ["`one`", "the other"].map(str::to_owned).to_vec();
    let series = vec![
        Series::new("median", Role::Ours, vec![Some(3.0), Some(40.0)]),
        Series::new("longest", Role::Other, vec![Some(0.0), Some(1234.5)]),
    ];
    let across = "milliseconds";
    check(
        "golden-bars.svg",
        &Bars { title: "Side by side", x_axis: across, groups, series }.draw(),
    );
}
