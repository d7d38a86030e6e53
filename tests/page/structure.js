// What a screen reader needs of a page's structure, as findings in words: none if all is there.
// https://www.w3.org/TR/WCAG22/, https://www.w3.org/TR/wai-aria-1.2/

function findings() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (selector) => all(selector).filter((each) => each.checkVisibility());
  const says = (each) => each.outerHTML.slice(0, 120);
  const ids = all("[id]").map((each) => each.id);
  const referred = ["aria-labelledby", "aria-describedby", "for"].flatMap((name) =>
    all(`[${name}]`).flatMap((each) => each.getAttribute(name).split(" ")));
  const levels = shown("h1, h2, h3, h4").filter((each) => !each.closest("dialog")).map((each) => Number(each.tagName[1]));
  const small = shown("button, select, input, summary, a:not(.skip)").filter((each) => {
    const { width, height } = each.getBoundingClientRect();
    return Math.min(width, height) < 24;
  });
  const clipped = shown(".chip, .station-name, .item, .phone h3, .switch label").filter((each) =>
    each.scrollWidth > Math.ceil(each.getBoundingClientRect().width) || each.getBoundingClientRect().right >
      each.closest("li, section").getBoundingClientRect().right + 1);
  const aside = shown(".station-name, .ends .chip").filter((each) => {
    const [own, station] = [each.getBoundingClientRect(), each.closest(".station").getBoundingClientRect()];
    return own.left < station.left - 1 || own.right > station.right + 1;
  });
  return [
    ...clipped.map((each) => `it is cut off: ${says(each)}`),
    ...aside.map((each) => `it reaches into the next station: ${says(each)}`),
    ...(document.documentElement.lang ? [] : ["the page has no language"]),
    ...(document.title ? [] : ["the page has no title"]),
    ...ids.filter((id, place) => ids.indexOf(id) !== place).map((id) => `${id} is there twice`),
    ...referred.filter((id) => !ids.includes(id)).map((id) => `${id} is referred to, and is not there`),
    ...(levels.filter((level) => level === 1).length === 1 ? [] : ["there is not one h1"]),
    ...levels.flatMap((level, place) => (level > (levels[place - 1] ?? 0) + 1 ? [`an h${level} follows an h${levels[place - 1]}`] : [])),
    ...all("img:not([alt])").map((each) => `no alt: ${says(each)}`),
    ...all("th:not([scope])").map((each) => `of what is it the head: ${says(each)}`),
    ...all("table").filter((each) => !each.caption).map((each) => `no caption: ${says(each)}`),
    ...all("[role=img]:not([aria-label])").map((each) => `no words: ${says(each)}`),
    ...all("section:not([aria-labelledby])").map((each) => `a section without a name: ${says(each)}`),
    ...all("ol > :not(li), ul > :not(li), dl > :not(dt, dd)").map((each) => `no member of a list: ${says(each)}`),
    ...all("[tabindex]").filter((each) => each.tabIndex > 0).map((each) => `it has a place of its own in the order: ${says(each)}`),
    ...all("main, header").filter((each, _, found) => found.filter((other) => other.tagName === each.tagName).length > 1).map(says),
    ...small.map((each) => `too small to hit: ${says(each)}`),
  ];
}
