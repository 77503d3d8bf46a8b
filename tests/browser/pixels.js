// How often a colour of the page is found on the wall's canvas.
token => {
  const root = document.querySelector('#house .ironworks'), canvas = root.querySelector('.pw canvas'), hex = getComputedStyle(root).getPropertyValue('--' + token).trim();
  const rgb = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - rgb[0]) + Math.abs(data[i + 1] - rgb[1]) + Math.abs(data[i + 2] - rgb[2]) < 12) count++;
  return count;
}
