//! What each key does.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::View;

/// For the help and for docs: key and what it does.
pub(super) const KEYS: [(&str, &str); 10] = [
    ("q", "leave"),
    ("/", "show only flows that contain these words; Esc takes them away"),
    ("s", "sort flows by the next figure"),
    ("r", "hide or show addresses"),
    ("↑ ↓", "move through the flows; also j k, PageUp, PageDown, Home"),
    ("← →", "other link; also Tab"),
    ("+ -", "longer or shorter time in the graphs"),
    ("?", "this help"),
    ("Esc", "close the help, end the filter"),
    ("Ctrl-C", "leave"),
];

const FLOWS_PER_PAGE: usize = 10;
const LONGEST_FILTER: usize = 80;

/// Changes the view as an event asks for.
pub(super) fn handle(event: &Event, view: &mut View) {
    let Event::Key(key) = event else { return };
    if key.kind == KeyEventKind::Release {
        return;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        view.quit |= key.code == KeyCode::Char('c');
    } else if view.typing {
        type_filter(*key, view);
    } else {
        command(*key, view);
    }
}

fn type_filter(key: KeyEvent, view: &mut View) {
    match key.code {
        KeyCode::Enter => view.typing = false,
        KeyCode::Esc => {
            view.typing = false;
            view.filter.clear();
        }
        KeyCode::Backspace => {
            view.filter.pop();
        }
        KeyCode::Char(letter) if view.filter.chars().count() < LONGEST_FILTER => view.filter.push(letter),
        _ => {}
    }
    view.scroll = 0;
}

fn command(key: KeyEvent, view: &mut View) {
    match key.code {
        KeyCode::Char('q') => view.quit = true,
        KeyCode::Char('/') => view.typing = true,
        KeyCode::Char('s') => {
            view.sort = view.sort.next();
            view.scroll = 0;
        }
        KeyCode::Char('r') => view.redact = !view.redact,
        KeyCode::Char('?' | 'h') => view.help = !view.help,
        KeyCode::Char('+' | '=') => view.zoom(true),
        KeyCode::Char('-') => view.zoom(false),
        KeyCode::Left | KeyCode::BackTab => view.turn(false),
        KeyCode::Right | KeyCode::Tab => view.turn(true),
        KeyCode::Down | KeyCode::Char('j') => scroll(view, 1),
        KeyCode::PageDown => scroll(view, FLOWS_PER_PAGE),
        KeyCode::Up | KeyCode::Char('k') => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(FLOWS_PER_PAGE),
        KeyCode::Home => view.scroll = 0,
        KeyCode::Esc if view.help => view.help = false,
        KeyCode::Esc => view.filter.clear(),
        _ => {}
    }
}

/// The last flow stays on the screen.
fn scroll(view: &mut View, flows: usize) {
    let last = view.rows().len().saturating_sub(1);
    view.scroll = (view.scroll + flows).min(last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::flows::Sort;
    use pendulum_wire::{Flow, Link, State};

    fn press(view: &mut View, keys: &[KeyCode]) {
        for &code in keys {
            handle(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), view);
        }
    }

    fn view() -> View {
        let mut view = View::new(&"http://gateway".parse().expect("a URL"), None, false);
        let link = |name: &str| Link { name: name.to_owned(), ..Link::default() };
        view.state = Some(State { links: vec![link("dsl"), link("lte")], ..State::default() });
        view
    }

    #[test]
    fn keys_do_what_the_help_says() {
        let mut view = view();
        press(&mut view, &[KeyCode::Char('s'), KeyCode::Char('r'), KeyCode::Char('?')]);
        assert!(view.sort == Sort::Bytes && view.redact && view.help && view.wish().by_bytes);
        press(&mut view, &[KeyCode::Esc, KeyCode::Right]);
        assert_eq!((view.help, view.wish().link.as_deref()), (false, Some("lte")));
        press(&mut view, &[KeyCode::Right, KeyCode::Char('+')]);
        assert_eq!((view.shown(), view.seconds()), (0, 60.0));
        press(&mut view, &[KeyCode::Char('q')]);
        assert!(view.quit);
    }

    #[test]
    fn a_filter_takes_letters_that_are_commands_elsewhere() {
        let mut view = view();
        press(&mut view, &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('s'), KeyCode::Backspace]);
        assert_eq!((view.filter.as_str(), view.typing, view.quit), ("q", true, false));
        press(&mut view, &[KeyCode::Enter]);
        assert_eq!((view.filter.as_str(), view.typing), ("q", false));
        press(&mut view, &[KeyCode::Esc]);
        assert_eq!(view.filter, "");
    }

    #[test]
    fn scrolling_stops_at_the_last_flow() {
        let mut view = view();
        press(&mut view, &[KeyCode::Down, KeyCode::PageDown]);
        assert_eq!(view.scroll, 0);
        view.flows.flows = vec![Flow::default(); 3];
        press(&mut view, &[KeyCode::PageDown]);
        assert_eq!(view.scroll, 2);
        press(&mut view, &[KeyCode::Up]);
        assert_eq!(view.scroll, 1);
        view.flows.flows = vec![Flow::default(); 5 * FLOWS_PER_PAGE];
        press(&mut view, &[KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageUp]);
        assert_eq!(view.scroll, 1 + FLOWS_PER_PAGE);
        press(&mut view, &[KeyCode::Home]);
        assert_eq!(view.scroll, 0);
    }
}
