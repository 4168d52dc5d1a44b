/* Resamples learned position tables to another size, like PyTorch. */
#ifndef ENGINE_CPU_RESAMPLE_H
#define ENGINE_CPU_RESAMPLE_H

/* Antialiased bicubic interpolation (a = -0.5, align_corners false): in[from][from][channels] ->
 * out[to][to][channels]. */
void resample_bicubic(const float *in, int from, int to, int channels, float *out);
/* Linear interpolation along rows (align_corners false): in[from][channels] -> out[to][channels]. */
void resample_linear(const float *in, int from, int to, int channels, float *out);

#endif
