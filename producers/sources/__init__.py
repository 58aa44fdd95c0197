"""Where requests come from: video, folders of images and rows of files, each a plain iterator of items."""
