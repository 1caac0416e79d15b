"""The pure core: values in, values out. No clock, no disk, no environment, no process."""
