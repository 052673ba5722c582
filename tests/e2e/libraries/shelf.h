// A library of the user's own, which no other machine has.
#pragma once

int shelf_height(int boards);
