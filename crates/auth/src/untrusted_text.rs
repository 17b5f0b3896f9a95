//! Text from servers, made safe to display.

/// Removes control characters and limits the length.
pub(crate) fn sanitize_for_display(text: &str) -> String {
    const MAX_LENGTH: usize = 200;
    text.chars().filter(|character| !character.is_control()).take(MAX_LENGTH).collect()
}
