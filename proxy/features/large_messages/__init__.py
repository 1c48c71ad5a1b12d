"""Large messages split as clients send them, and assembled as clients fetch them."""
