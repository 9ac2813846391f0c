"""What both sides of the engine share: messages, the wire, the handing over of sockets."""
