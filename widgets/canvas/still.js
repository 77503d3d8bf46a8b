// The still picture that a saved notebook keeps above a live page: it goes when the page is there.

/** `render`, which hides the still pictures of its model first. */
export const over = render => context => {
  for (const node of document.querySelectorAll(".ironworks-still")) if (node.dataset.of === context.model.get("known_as")) node.hidden = true;
  return render(context);
};
