"""How the processes of one worker talk: frames, control channels, messages, the input ring. All inherited."""
