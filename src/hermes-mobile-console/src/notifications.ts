/** Notifications of the system for what arrives while nobody looks at the page, if that is wanted. */

const MAX_BODY = 140;

/** Shows a button that asks for the permission, as long as it is neither given nor refused. */
export function offerNotifications(button: HTMLButtonElement): void {
  if (!('Notification' in window) || !window.isSecureContext) return;
  const show = (): void => {
    button.hidden = Notification.permission !== 'default';
  };
  button.addEventListener('click', () => {
    Notification.requestPermission().then(show, show);
  });
  show();
}

export function notify(text: string): void {
  if (!document.hidden || !('Notification' in window)) return;
  if (Notification.permission !== 'granted') return;
  try {
    const body = text.length > MAX_BODY ? `${text.slice(0, MAX_BODY)}…` : text;
    const notification = new Notification('Hermes', {
      body,
      icon: 'icon.svg',
      tag: 'hermes-mobile',
    });
    notification.addEventListener('click', () => {
      window.focus();
      notification.close();
    });
  } catch {
    // Android's browsers want a service worker for this. It is not worth one.
  }
}
