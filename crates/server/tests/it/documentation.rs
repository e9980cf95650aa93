//! Runs the commands of the README and of the guides as a reader does, and compares their output with the text.
//!
//! A command begins with `$ ` in a code block. The lines after it are its output: `…` stands for any text, and numbers
//! of four and more digits, ids and addresses may differ.

mod adopting;
mod reader;
mod steps;

use self::adopting::OldServices;
use self::reader::Reader;
use self::steps::{repository, steps};

/// The pages, in the order in which the README names them.
const PAGES: [&str; 9] = [
    "README.md",
    "examples/README.md",
    "docs/guide/connecting.md",
    "docs/guide/tokens.md",
    "docs/guide/presence.md",
    "docs/guide/messages.md",
    "docs/guide/sessions.md",
    "docs/guide/limits.md",
    "docs/guide/importing.md",
];
/// The guide that runs beside old services, on their Redis.
const ADOPTING: &str = "docs/guide/adopting.md";
/// The guide that stops the server of the other guides, so it comes last.
const MOVING: &str = "docs/guide/moving.md";

/// Follows a page as its reader does.
async fn follow(reader: &mut Reader, page: &str) {
    assert!(!steps(page).is_empty(), "{page}");
    if page == ADOPTING {
        let services = OldServices::start(&reader.redis).await;
        reader.follow(page).await;
        services.check().await;
    } else {
        reader.follow(page).await;
    }
}

#[tokio::test]
async fn each_guide_works_from_a_fresh_start() {
    for page in PAGES.into_iter().chain([ADOPTING, MOVING]) {
        let mut reader = Reader::start().await;
        follow(&mut reader, page).await;
        reader.finish().await;
    }
}

#[tokio::test]
async fn all_guides_work_in_one_run() {
    let mut reader = Reader::start().await;
    for page in PAGES.into_iter().chain([ADOPTING, MOVING]) {
        follow(&mut reader, page).await;
    }
    reader.finish().await;
}

#[test]
fn every_guide_is_followed() {
    let guides = std::fs::read_dir(repository().join("docs/guide")).unwrap();
    for guide in guides {
        let page = format!(
            "docs/guide/{}",
            guide.unwrap().file_name().to_string_lossy()
        );
        let is_followed = PAGES.contains(&page.as_str()) || [ADOPTING, MOVING].contains(&&page[..]);
        assert!(is_followed, "{page}");
    }
}
