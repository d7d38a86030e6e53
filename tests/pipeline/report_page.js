// What a person sees of the report's page, measured in its tab. Colours are as CSS computes them, boxes in pixels.

function numbers(colour) {
  return colour.match(/[\d.]+/g).map(Number);
}

// https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
function luminance(colour) {
  const [red, green, blue] = numbers(colour)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// All that may lie behind an element: gradients, as the bar of a row is one, down to the first opaque background.
function behind(element) {
  const found = [];
  for (let each = element; each; each = each.parentElement) {
    const style = getComputedStyle(each);
    found.push(...(style.backgroundImage.match(/rgba?\([^)]+\)/g) ?? []));
    if ((numbers(style.backgroundColor)[3] ?? 1) > 0) return [...found, style.backgroundColor];
  }
  throw new Error(`nothing is behind ${element.outerHTML}`);
}

function drawn(element) {
  const style = getComputedStyle(element);
  return element.ownerSVGElement ? style.fill : style.color;
}

function measured(element) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const scale = element.ownerSVGElement ? element.getScreenCTM().a : 1;
  return {
    text: element.textContent.trim().replace(/\s+/g, " "),
    pixels: parseFloat(getComputedStyle(element).fontSize) * scale,
    contrast: Math.min(...behind(element).map((background) => contrast(drawn(element), background))),
    left, right, top: top + scrollY, bottom: bottom + scrollY,
  };
}

// Each element that has text of its own.
function texts() {
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const shown = [...document.body.querySelectorAll("*")].filter((each) => !each.closest("title, style") && each.checkVisibility());
  return shown.filter(hasText).map(measured);
}

// The contrast to the card of each thing that is drawn in the colour of its series.
function shapes() {
  return [...document.querySelectorAll("svg .series .rect, svg .series .dot, .legend i")]
    .map((each) => Math.min(...behind(each.ownerSVGElement ?? each.parentElement).map((card) => contrast(drawn(each), card))));
}

// Texts of charts that lie over another, or outside of their chart.
function collisions() {
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  return [...document.querySelectorAll("svg")].flatMap((svg) => {
    const chart = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
    const outside = boxes.filter(([, box]) => box.left < chart.left || box.right > chart.right || box.bottom > chart.bottom);
    const over = boxes.flatMap(([text, box], place) =>
      boxes.slice(place + 1).filter(([, other]) => !apart(box, other)).map(([other]) => `${text} lies over ${other}`));
    return [...over, ...outside.map(([text]) => `${text} is cut off`)];
  });
}
