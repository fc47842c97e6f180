// Small helpers over the DOM. Text goes in as text, never as markup.

export function byId<T extends Element = HTMLElement>(id: string): T {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page has no element #${id}`);
    return found as unknown as T;
}

// Writes only what changed: no needless layout, and screen readers read it once.
export function setText(element: Element, text: string): void {
    if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element: Element, name: string, value: string): void {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

type Child = Node | string;

export function make<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Record<string, string> = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
}

// Replaces the children only if what they show differs from the last time.
export class Keyed {
    private shown = '';

    constructor(private readonly parent: Element) {}

    update(key: string, children: () => Child[]): void {
        if (key === this.shown) return;
        this.shown = key;
        this.parent.replaceChildren(...children());
    }
}
