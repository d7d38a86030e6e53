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
  return make(
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
}

// All times are UTC, as those of `clarion why`.
export const clock = (at) => new Date(at).toISOString().slice(11, 19);
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
