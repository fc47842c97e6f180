// What this browser remembers: theme, window, masking. Storage may be forbidden; then nothing is remembered.

export function remember(name: string, value: string): void {
    try {
        localStorage.setItem(`pendulum.${name}`, value);
    } catch {
        // Private windows of some browsers; the setting holds until the page is closed.
    }
}

export function recall(name: string): string | null {
    try {
        return localStorage.getItem(`pendulum.${name}`);
    } catch {
        return null;
    }
}

// The token lasts as long as the tab, and is never written to disk.
let token: string | null = null;

export function getToken(): string | null {
    if (token === null) {
        try {
            token = sessionStorage.getItem('pendulum.token');
        } catch {
            // Kept in memory only.
        }
    }
    return token;
}

export function setToken(value: string): void {
    token = value;
    try {
        sessionStorage.setItem('pendulum.token', value);
    } catch {
        // Kept in memory only.
    }
}
