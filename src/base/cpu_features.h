/* Instruction sets that this CPU has and that Linux lets the process use. */
#ifndef BASE_CPU_FEATURES_H
#define BASE_CPU_FEATURES_H

#include <stdbool.h>

bool cpu_has_avx2(void);   /* with FMA and F16C */
bool cpu_has_avx512(void); /* F, BW, DQ and VL */
bool cpu_has_avx512vnni(void);
bool cpu_has_avx512bf16(void);
/* bf16 tiles. Also requests the tile registers, which a process must do before it uses them. */
bool cpu_has_amx(void);

#endif
