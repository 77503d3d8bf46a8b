// Where the first brick of a call is drawn.
name => {
  const root = document.querySelector('#house .ironworks'), canvas = root.querySelector('.pw canvas').getBoundingClientRect();
  const [x, y] = root.ironworks.wall.spot(name);
  return [canvas.left + x, canvas.top + y];
}
