/** What is seen without a session: how to get in. */

export function Outside({ says }: { says: string }) {
  return (
    <main class="outside">
      <h1>Pullcord</h1>
      {says && <p class="problem">{says}</p>}
      <p>
        This page opens with the launch link that <code>pullcord serve</code> prints in its terminal. The link
        works once; this browser is then known.
      </p>
      <p>To get a new link, start the server again, or ask whoever runs it for a share link.</p>
    </main>
  );
}

export function Away({ onAgain }: { onAgain: () => void }) {
  return (
    <main class="outside">
      <h1>Pullcord</h1>
      <p>The server does not answer. Runs go on without this page; nothing was stopped.</p>
      <button type="button" onClick={onAgain}>
        Try again
      </button>
    </main>
  );
}
