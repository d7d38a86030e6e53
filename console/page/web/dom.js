// All text reaches the page as text: nothing here takes HTML.

export const byId = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function table(caption, heads, rows, numbers = []) {
  const scope = { th: { scope: "col" } };
  const cell = (name) => (text, place) =>
    make(name, { className: numbers.includes(place) ? "number" : "", ...scope[name] }, text ?? "–");
  const row = (cells, name) => make("tr", {}, ...cells.map(cell(name)));
  const box = make(
    "div",
    { className: "scroll" },
    make(
      "table",
      {},
      caption ? make("caption", {}, caption) : null,
      make("thead", {}, row(heads, "th")),
      make("tbody", {}, ...rows.map((cells) => row(cells, "td"))),
    ),
  );
  overflow.observe(box);
  return box;
}

// A box that scrolls is reached by the keyboard, and has a name; Safari gives it neither.
const overflow = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth;
    target.tabIndex = scrolls ? 0 : -1;
    target.role = scrolls ? "region" : null;
    target.ariaLabel = scrolls ? (target.querySelector("caption")?.textContent ?? "Steps") : null;
  }
});

// All times are UTC, as those of `clarion why`.
export const clock = (at) => new Date(at).toISOString().slice(11, 19);
export const dateTime = (at) => new Date(at).toISOString().slice(0, 16).replace("T", " ");
export const minute = (seconds) => new Date(1000 * seconds).toISOString().slice(11, 16);

export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) {
    return "–";
  }
  const seconds = milliseconds / 1000;
  if (seconds < 1) {
    return `${Math.round(milliseconds)} ms`;
  }
  return seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}
